package bus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/internal/pause"
)

// leases holds the deliveries that this process works on.
type leases struct {
	mu   sync.Mutex
	held map[message]*lease
}

// message identifies a message of a consumer. A stream or a consumer that was
// removed and made again has the same name.
type message struct {
	stream, consumer string
	seq              uint64
	// stored is the time in ns since 1970 at which it was stored.
	stored int64
	// delivery is the number of the delivery, if the consumer has a short
	// first lease. A second delivery is then meant to be handled beside the
	// first one. It is 0 for other consumers.
	delivery uint64
}

// messageOf returns the message of a delivery. The subject for its
// acknowledgement names the message.
func messageOf(m *nats.Msg) (message, *nats.MsgMetadata, error) {
	md, err := m.Metadata()
	if err != nil {
		return message{}, nil, err
	}
	return message{md.Stream, md.Consumer, md.Sequence.Stream, md.Timestamp.UnixNano(), 0}, md, nil
}

// lease is the lease of one delivery.
type lease struct {
	d *Delivery
	// limit is the time after which the lease is not renewed; zero: none.
	limit time.Time
	// renewed is the last time at which the server certainly counted the
	// delivery as this process's.
	renewed time.Time
	// expired is called once when the lease may be over; it may be nil.
	expired func()
}

// over reports whether the lease was not renewed for longer than it lasts.
func (l *lease) over(now time.Time, length time.Duration) bool {
	return pause.Elapsed(l.renewed, now) > length
}

// hold begins the lease of a delivery. It returns false if this process has the
// message in hand already: the earlier delivery goes on in place of the new
// one.
func (l *leases) hold(d *Delivery, now time.Time, length time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.replace(d.id, d.msg.Load(), now, length); h != nil {
		h.renewed = now
		return false
	}
	l.held[d.id] = &lease{d: d, renewed: now}
	return true
}

// keep is hold for a message that the server has delivered to another process.
func (l *leases) keep(m *nats.Msg, now time.Time, length time.Duration) bool {
	id, _, err := messageOf(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	return err == nil && l.replace(id, m, now, length) != nil
}

// replace lets the delivery in hand of a message be acknowledged, renewed and
// given back as the message's newest delivery. It returns nil if there is none,
// or if its lease may be over. The caller holds the lock.
func (l *leases) replace(id message, newest *nats.Msg, now time.Time, length time.Duration) *lease {
	h := l.held[id]
	if h == nil {
		return nil
	}
	if h.over(now, length) {
		l.lose(h)
		return nil
	}
	h.d.msg.Store(newest)
	return h
}

// of returns the lease of a delivery; nil if the delivery is not in hand any
// more. The caller holds the lock.
func (l *leases) of(d *Delivery) *lease {
	if h := l.held[d.id]; h != nil && h.d == d {
		return h
	}
	return nil
}

func (l *leases) limit(d *Delivery, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.of(d); h != nil {
		h.limit = t
	}
}

func (l *leases) drop(d *Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of(d) != nil {
		delete(l.held, d.id)
	}
}

// onExpired sets the function that is called when the lease of a delivery may
// be over. It calls the function at once if the lease may be over already.
func (l *leases) onExpired(d *Delivery, fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.of(d)
	switch {
	case h != nil:
		h.expired = fn
	case fn != nil && d.late:
		fn()
	}
}

// dropOverdue lets go of the deliveries with leases that may be over, and
// returns the number of them.
func (l *leases) dropOverdue(now time.Time, length time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if !h.over(now, length) {
			continue
		}
		n++
		l.lose(h)
	}
	return n
}

// renewable lists the deliveries with leases to be renewed.
func (l *leases) renewable(now time.Time) []*Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Delivery, 0, len(l.held))
	for _, h := range l.held {
		if h.limit.IsZero() || now.Before(h.limit) {
			out = append(out, h.d)
		}
	}
	return out
}

// renewed notes that the server has heard of the deliveries since now.
func (l *leases) renewed(ds []*Delivery, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range ds {
		if h := l.of(d); h != nil {
			h.renewed = now
		}
	}
}

// expired reports whether the lease of a delivery may be over, so that another
// worker may have the message. The next renewal would notice that, but a
// process that was stopped may do other work before it.
func (l *leases) expired(d *Delivery, now time.Time, length time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.of(d); h != nil && h.over(now, length) {
		// This is final: the caller gives the delivery up, and a
		// renewal on its way must not renew the lease.
		l.lose(h)
	}
	return d.late
}

// lose lets go of a delivery. Its lease may be over.
func (l *leases) lose(h *lease) {
	h.d.late = true
	delete(l.held, h.d.id)
	if h.expired != nil {
		h.expired()
	}
}

// KeepLeases renews the lease of every delivery in hand, four times within its
// length, until ctx ends or the connection is closed for good. It runs in a
// goroutine of its own, so that a slow handler does not lose its lease. The
// server does not acknowledge a renewal: an echo after each round shows that
// the renewals have reached it. While KeepLeases runs, Delivery.ProvablyFirst
// may be true.
func (c *Conn) KeepLeases(ctx context.Context) error {
	c.startEpoch(ctx)
	tick := time.NewTicker(c.cfg.AckWait / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			if c.nc.IsClosed() {
				return fmt.Errorf("lease: %w", nats.ErrConnectionClosed)
			}
			c.beat(ctx, now)
			c.startEpoch(ctx)
		}
	}
}

// beat renews all leases once.
func (c *Conn) beat(ctx context.Context, now time.Time) {
	if n := c.leases.dropOverdue(now, c.cfg.AckWait); n > 0 {
		c.log.WarnContext(ctx, "leases may be over", slog.Int("deliveries", n))
	}
	var sent []*Delivery
	for _, d := range c.leases.renewable(now) {
		if c.intercept(Point{"beat", d.Subject, false}) != nil {
			continue
		}
		if err := d.msg.Load().InProgress(); err != nil {
			c.log.DebugContext(ctx, "lease not renewed", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
			continue
		}
		sent = append(sent, d)
	}
	if len(sent) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AckWait/4)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err == nil {
		c.leases.renewed(sent, now)
	}
}
