package chaostest

import (
	"context"
	"fmt"
	"time"

	"github.com/axebus/axe/internal/pause"
)

// injectFaults carries out a schedule until ctx ends, or until an error shows
// that the test itself is broken.
func (h *harness) injectFaults(ctx context.Context, s *schedule) error {
	for f := s.next(); pause.For(ctx, f.after) == nil; f = s.next() {
		if err := h.inflict(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.kind, err)
		}
	}
	return nil
}

// inflict carries out one fault. A fault that lasts goes on after it returns.
func (h *harness) inflict(ctx context.Context, f fault) error {
	switch f.kind {
	case killServer:
		return h.strikeServer(ctx, h.servers.nodes[f.target%len(h.servers.nodes)], f)
	case killLeader:
		n, err := h.servers.leader(ctx)
		if err != nil {
			h.log.log("no leader to kill: %v", err)
			return nil
		}
		return h.strikeServer(ctx, n, f)
	case freezeServer, slowServer:
		h.pauseServer(ctx, h.servers.nodes[f.target%len(h.servers.nodes)].proc, f)
		return nil
	case killWorker, freezeWorker, drainWorker, cutConn, stallConn, slowConn, leaderMoved:
	}
	b := h.pool.take(f.target, f.kind == cutConn || f.kind == stallConn || f.kind == slowConn)
	if b == nil {
		// Another fault strikes each worker that is possible.
		return nil
	}
	over := h.hits.begin(f.kind, b.worker().name)
	done := func() { over(); b.fault.Unlock() }
	switch f.kind {
	case killWorker:
		defer done()
		p := b.worker()
		p.kill()
		return b.fill(p)
	case drainWorker:
		defer done()
		p := b.worker()
		if err := p.drain(time.Minute); err != nil {
			return err
		}
		return b.fill(p)
	case cutConn:
		// The worker keeps its runs while it has no connection.
		again := b.proxy.cut()
		h.lasting.Go(func() {
			defer done()
			select {
			case <-again:
			case <-ctx.Done():
			}
		})
	case freezeWorker:
		b.worker().stop()
		h.later(ctx, h.beyondLease(f), func() { b.worker().cont(); done() })
	case stallConn:
		b.proxy.hold()
		h.later(ctx, h.beyondLease(f), func() { b.proxy.release(); done() })
	case slowConn:
		b.proxy.slow(time.Duration(f.duration * float64(200*time.Millisecond)))
		h.later(ctx, h.beyondLease(f), func() { b.proxy.slow(0); done() })
	case killServer, killLeader, freezeServer, slowServer, leaderMoved:
	}
	return nil
}

// strikeServer kills a node and starts it again, for one fault in four after a
// pause of up to a second.
func (h *harness) strikeServer(ctx context.Context, n *node, f fault) error {
	defer h.hits.begin(f.kind, "")()
	if h.tenant != nil {
		for _, other := range h.tenant.beside {
			defer other.hits.begin(f.kind, "")()
		}
	}
	n.proc.kill()
	if f.duration > 0.75 {
		_ = pause.For(ctx, time.Duration(f.duration*float64(time.Second)))
	}
	return h.servers.up(context.WithoutCancel(ctx), n)
}

// pauseServer freezes a server for longer than a lease: all the time, or for a
// slowServer fault 100 ms out of every 200 ms.
func (h *harness) pauseServer(ctx context.Context, p *process, f fault) {
	over := h.hits.begin(f.kind, "")
	long := h.beyondLease(f)
	h.lasting.Go(func() {
		defer over()
		frozen := long
		if f.kind == slowServer {
			frozen = 100 * time.Millisecond
		}
		for calm := time.Now().Add(long); ctx.Err() == nil && time.Now().Before(calm); {
			p.stop()
			_ = pause.For(ctx, frozen)
			p.cont()
			_ = pause.For(ctx, min(frozen, time.Until(calm)))
		}
	})
}

// beyondLease is the duration of a fault that outlasts a lease.
func (h *harness) beyondLease(f fault) time.Duration {
	return h.ackWait + time.Duration((0.2+f.duration)*float64(h.ackWait))
}

// later undoes a fault after a while, or at the end of ctx.
func (h *harness) later(ctx context.Context, d time.Duration, undo func()) {
	h.lasting.Go(func() {
		_ = pause.For(ctx, d)
		undo()
	})
}
