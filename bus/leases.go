package bus

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// leases knows the deliveries that this process works on.
type leases struct {
	mu   sync.Mutex
	held map[*Delivery]*lease
}

// lease is what a delivery is held under.
type lease struct {
	// zero: for as long as it takes
	until time.Time
	// when the server was last known to count it as this process's
	renewed time.Time
	// called once when the lease may be over; nil: nobody asked
	late func()
}

// over reports whether the lease was not renewed for longer than it lasts. Both
// clocks count: the one that stands still while the machine sleeps, and the one
// that may be set.
func (l *lease) over(now time.Time, length time.Duration) bool {
	return max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0))) > length
}

func (l *leases) hold(d *Delivery, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[d] = &lease{renewed: now}
}

func (l *leases) until(d *Delivery, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[d]; h != nil {
		h.until = t
	}
}

func (l *leases) drop(d *Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, d)
}

// onLate has fn called when the lease of a delivery may be over, at once if it
// may be already.
func (l *leases) onLate(d *Delivery, fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[d]
	switch {
	case fn == nil && h != nil:
		h.late = nil
	case h != nil:
		h.late = fn
	case fn != nil && d.late:
		fn()
	}
}

// overdue lets go of the deliveries that were not renewed for longer than a
// lease, and returns how many.
func (l *leases) overdue(now time.Time, length time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, h := range l.held {
		if !h.over(now, length) {
			continue
		}
		n++
		l.lose(d, h)
	}
	return n
}

// alive lists the deliveries whose leases are to be renewed.
func (l *leases) alive(now time.Time) []*Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Delivery, 0, len(l.held))
	for d, h := range l.held {
		if h.until.IsZero() || now.Before(h.until) {
			out = append(out, d)
		}
	}
	return out
}

// renewed notes that the server has heard of the deliveries since now.
func (l *leases) renewed(ds []*Delivery, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range ds {
		if h := l.held[d]; h != nil {
			h.renewed = now
		}
	}
}

// isLate reports whether the lease of a delivery may be over: another worker
// may have it. The next beat would find that out, but a process that was
// stopped may come to something else first.
func (l *leases) isLate(d *Delivery, now time.Time, length time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[d]; h != nil && h.over(now, length) {
		// for good: whoever asks gives it up, and a beat on its way
		// must not renew it
		l.lose(d, h)
	}
	return d.late
}

// lose lets go of a delivery.
func (l *leases) lose(d *Delivery, h *lease) {
	d.late = true
	delete(l.held, d)
	if h.late != nil {
		h.late()
	}
}

// KeepLeases renews the lease of every delivery in hand, four times within its
// length, until ctx ends or the connection is closed for good. It runs in a
// goroutine of its own, so that no slow handler loses its lease. Signs of life
// are not acknowledged; that the server has had them is learnt from an echo
// after each round. While it runs there is what Delivery.Untouched needs.
func (c *Conn) KeepLeases(ctx context.Context) error {
	c.remark(ctx)
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
			c.remark(ctx)
		}
	}
}

func (c *Conn) beat(ctx context.Context, now time.Time) {
	if n := c.leases.overdue(now, c.cfg.AckWait); n > 0 {
		c.log.WarnContext(
			ctx,
			"leases may be over: no sign of life has reached the server for as long as they last",
			slog.Int("deliveries", n),
		)
	}
	var told []*Delivery
	for _, d := range c.leases.alive(now) {
		if c.intercept(Point{"beat", d.Subject, false}) != nil {
			continue
		}
		if err := d.msg.InProgress(); err != nil {
			c.log.DebugContext(ctx, "lease", slog.String("subject", d.Subject), slog.Any(keyError, err))
			continue
		}
		told = append(told, d)
	}
	if len(told) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AckWait/4)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err == nil {
		c.leases.renewed(told, now)
	}
}
