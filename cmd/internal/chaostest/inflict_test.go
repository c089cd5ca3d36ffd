package chaostest

import (
	"context"
	"fmt"
	"time"

	"github.com/axebus/axe/bus"
)

// harass does what a schedule says until ctx ends, or until an error says that
// the test itself is broken.
func (st *stage) harass(ctx context.Context, s *schedule) error {
	for f := s.next(); bus.Pause(ctx, f.after) == nil; f = s.next() {
		if err := st.inflict(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.kind, err)
		}
	}
	return nil
}

func (st *stage) inflict(ctx context.Context, f fault) error {
	switch f.kind {
	case killServer:
		return st.strikeServer(ctx, st.servers.nodes[f.whom%len(st.servers.nodes)], f)
	case killLeader:
		n, err := st.servers.leader(ctx)
		if err != nil {
			st.log.say("no leader to kill: %v", err)
			return nil // there is none at this moment
		}
		return st.strikeServer(ctx, n, f)
	case haltServer, dragServer:
		st.freezeServer(ctx, st.servers.nodes[f.whom%len(st.servers.nodes)].proc, f)
		return nil
	case killWorker, stopWorker, drainOne, cutConn, holdConn, slowConn, leaderMoved:
	}
	b := st.crew.take(f.whom, f.kind == cutConn || f.kind == holdConn || f.kind == slowConn)
	if b == nil {
		// something is being done to each of them
		return nil
	}
	over := st.hits.begin(f.kind, b.worker().name)
	done := func() { over(); b.fault.Unlock() }
	switch f.kind {
	case killWorker:
		defer done()
		p := b.worker()
		p.kill()
		return b.fill(p)
	case drainOne:
		defer done()
		p := b.worker()
		if err := p.drain(time.Minute); err != nil {
			return err
		}
		return b.fill(p)
	case cutConn:
		defer done()
		b.proxy.cut()
	case stopWorker:
		b.worker().stop()
		st.later(ctx, st.beyondLease(f), func() { b.worker().cont(); done() })
	case holdConn:
		b.proxy.hold()
		st.later(ctx, st.beyondLease(f), func() { b.proxy.release(); done() })
	case slowConn:
		b.proxy.slow(time.Duration(f.long * float64(200*time.Millisecond)))
		st.later(ctx, st.beyondLease(f), func() { b.proxy.slow(0); done() })
	case killServer, killLeader, haltServer, dragServer, leaderMoved:
	}
	return nil
}

// strikeServer kills a node and starts it again, some of the time after a
// while.
func (st *stage) strikeServer(ctx context.Context, n *node, f fault) error {
	defer st.hits.begin(f.kind, "")()
	n.proc.kill()
	if f.long > 0.75 {
		_ = bus.Pause(ctx, time.Duration(f.long*float64(time.Second)))
	}
	return st.servers.up(context.WithoutCancel(ctx), n)
}

// freezeServer stops a server for as long as a fault that outlasts a lease
// lasts, all the time or every other moment.
func (st *stage) freezeServer(ctx context.Context, p *process, f fault) {
	over := st.hits.begin(f.kind, "")
	long := st.beyondLease(f)
	st.lasting.Go(func() {
		defer over()
		frozen := long
		if f.kind == dragServer {
			frozen = 100 * time.Millisecond
		}
		for calm := time.Now().Add(long); ctx.Err() == nil && time.Now().Before(calm); {
			p.stop()
			_ = bus.Pause(ctx, frozen)
			p.cont()
			_ = bus.Pause(ctx, min(frozen, time.Until(calm)))
		}
	})
}

// beyondLease is how long a fault lasts that is to outlast a lease.
func (st *stage) beyondLease(f fault) time.Duration {
	return st.ackWait + time.Duration((0.2+f.long)*float64(st.ackWait))
}

// later undoes a fault after a while, or at the end of ctx.
func (st *stage) later(ctx context.Context, d time.Duration, undo func()) {
	st.lasting.Go(func() {
		_ = bus.Pause(ctx, d)
		undo()
	})
}
