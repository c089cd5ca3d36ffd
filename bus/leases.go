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
	held map[*Delivery]time.Time // zero: for as long as it takes
}

func (l *leases) hold(d *Delivery, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[d] = until
}

func (l *leases) until(d *Delivery, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.held[d]; ok {
		l.held[d] = t
	}
}

func (l *leases) drop(d *Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, d)
}

func (l *leases) alive(now time.Time) []*Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Delivery, 0, len(l.held))
	for d, until := range l.held {
		if until.IsZero() || now.Before(until) {
			out = append(out, d)
		}
	}
	return out
}

// Beat renews the lease of every delivery in hand, four times within its length, until ctx ends or the
// connection is closed for good. It runs in a goroutine of its own, so that no slow handler loses its lease.
func (c *Conn) Beat(ctx context.Context) error {
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
			for _, d := range c.leases.alive(now) {
				if c.intercept(Point{"beat", d.Subject, false}) != nil {
					continue
				}
				if err := d.msg.InProgress(); err != nil {
					c.log.DebugContext(ctx, "lease", slog.String("subject", d.Subject), slog.Any(keyError, err))
				}
			}
		}
	}
}
