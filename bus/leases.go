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
	held map[message]*Delivery
}

// message identifies a message of a consumer. A consumer that was removed and
// made again delivers the same messages. A stream that was removed and made
// again has other messages under the same sequences: their time differs.
type message struct {
	stream, consumer string
	seq              uint64
	// stored is the time in ns since 1970 at which the stream stored the
	// message.
	stored int64
	// delivery is the number of the delivery, if the consumer has a short
	// first lease (ConsumerConfig.FirstLease), and 0 otherwise. A process
	// handles the second delivery of such a consumer beside the first one.
	delivery uint64
}

// messageOf reads the message of a delivery from the subject for its
// acknowledgement. It leaves message.delivery 0.
func messageOf(m *nats.Msg) (message, *nats.MsgMetadata, error) {
	md, err := m.Metadata()
	if err != nil {
		return message{}, nil, err
	}
	return message{md.Stream, md.Consumer, md.Sequence.Stream, md.Timestamp.UnixNano(), 0}, md, nil
}

// lease is the lease of a delivery. The lock of leases guards it.
type lease struct {
	// held says that leases.held has the delivery.
	held bool
	// late says that the delivery was let go because its lease may be over.
	late bool
	// limit is the time after which the lease is not renewed; zero: none.
	limit time.Time
	// renewed is the time at which this process received the delivery or,
	// if that is later, began the last renewal that reached the server.
	renewed time.Time
	// expired is called once when the lease may be over, under the lock. It
	// may be nil.
	expired func()
}

// over reports whether the lease may be over: its last renewal is longer ago
// than its length.
func (l *lease) over(now time.Time, length time.Duration) bool {
	return pause.Elapsed(l.renewed, now) > length
}

// hold begins the lease of a delivery. It returns false if this process has the
// message in hand already. The earlier delivery then goes on, under the lease
// of the new one.
func (l *leases) hold(d *Delivery, now time.Time, length time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if earlier := l.replace(d.id, d.msg.Load(), now, length); earlier != nil {
		earlier.lease.renewed = now
		return false
	}
	l.held[d.id] = d
	d.lease = lease{held: true, renewed: now}
	return true
}

// keep lets a delivery in hand go on under the lease of a delivery to another
// process. It returns false if this process does not have the message in hand,
// or if its lease may be over.
func (l *leases) keep(m *nats.Msg, now time.Time, length time.Duration) bool {
	id, _, err := messageOf(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	return err == nil && l.replace(id, m, now, length) != nil
}

// replace lets the delivery in hand of a message be acknowledged, renewed and
// given back as the message's newest delivery. It returns nil if this process
// does not have the message in hand, or if its lease may be over. The caller
// holds the lock.
func (l *leases) replace(id message, newest *nats.Msg, now time.Time, length time.Duration) *Delivery {
	d := l.held[id]
	if d == nil {
		return nil
	}
	if d.lease.over(now, length) {
		l.lose(d)
		return nil
	}
	d.msg.Store(newest)
	return d
}

func (l *leases) limit(d *Delivery, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.lease.limit = t
}

func (l *leases) drop(d *Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(d)
}

// remove forgets a delivery that is in hand. The caller holds the lock.
func (l *leases) remove(d *Delivery) {
	if d.lease.held {
		d.lease.held = false
		delete(l.held, d.id)
	}
}

// onExpired sets the function that is called when the lease of a delivery may
// be over. With nil none is called. If the delivery was let go for that reason
// already, onExpired calls the function at once.
func (l *leases) onExpired(d *Delivery, fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case d.lease.held:
		d.lease.expired = fn
	case fn != nil && d.lease.late:
		fn()
	}
}

// dropOverdue lets go of the deliveries with leases that may be over, and
// returns their number.
func (l *leases) dropOverdue(now time.Time, length time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.held {
		if !d.lease.over(now, length) {
			continue
		}
		n++
		l.lose(d)
	}
	return n
}

// renewable lists the deliveries with leases that are not past their limit.
func (l *leases) renewable(now time.Time) []*Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Delivery, 0, len(l.held))
	for _, d := range l.held {
		if limit := d.lease.limit; limit.IsZero() || now.Before(limit) {
			out = append(out, d)
		}
	}
	return out
}

// renewed notes that renewals of the deliveries have reached the server. Now is
// the time before the first of them was sent.
func (l *leases) renewed(ds []*Delivery, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range ds {
		d.lease.renewed = now
	}
}

// expired reports whether the lease of a delivery may be over, so that another
// worker may have the message. If so, it lets go of the delivery. KeepLeases
// lets go of it too, at its next round. A process that was stopped may do other
// work before that.
func (l *leases) expired(d *Delivery, now time.Time, length time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.lease.held && d.lease.over(now, length) {
		// This is final: the caller gives the delivery up, and a
		// renewal on its way must not renew the lease.
		l.lose(d)
	}
	return d.lease.late
}

// lose lets go of a delivery in hand with a lease that may be over. The caller
// holds the lock.
func (l *leases) lose(d *Delivery) {
	l.remove(d)
	d.lease.late = true
	if d.lease.expired != nil {
		d.lease.expired()
	}
}

// KeepLeases renews the leases of the deliveries in hand, four times in
// Config.AckWait, until ctx ends or the connection is closed for good. Call it
// in a goroutine of its own, so that a slow handler does not lose its lease.
// The server does not acknowledge a renewal. So each round ends with a ping:
// the server's answer shows that the renewals have reached it.
// Delivery.ProvablyFirst is false unless KeepLeases has run.
func (c *Conn) KeepLeases(ctx context.Context) error {
	c.startEpoch(ctx)
	tick := time.NewTicker(c.cfg.AckWait / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			now := time.Now() // the tick has the time at which it was due, before a stop
			if c.nc.IsClosed() {
				return fmt.Errorf("lease: %w", nats.ErrConnectionClosed)
			}
			c.beat(ctx, now)
			c.startEpoch(ctx)
		}
	}
}

// beat lets go of the deliveries with leases that may be over, and renews the
// other leases once.
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
