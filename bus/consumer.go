package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Consumer is a durable pull consumer that many workers serve.
type Consumer struct {
	conn *Conn
	c    jetstream.Consumer
}

// Consumer creates the durable consumer of a stream of this space ("RUNS" or "SUBMIT"), or takes the
// one that is there. Deliveries are unlimited in number and in flight: slots limit work, and the
// worker counts deliveries itself.
func (c *Conn) Consumer(ctx context.Context, stream, name string, filters ...string) (*Consumer, error) {
	cfg := jetstream.ConsumerConfig{
		Durable:        name,
		FilterSubjects: filters,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        c.cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  -1,
		MaxWaiting:     4096,
	}
	jc, err := c.js.CreateOrUpdateConsumer(ctx, c.cfg.Space.Name(stream), cfg)
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", name, err)
	}
	return &Consumer{c, jc}, nil
}

// Feed is an open pull of a consumer.
type Feed struct {
	conn *Conn
	it   jetstream.MessagesContext
	stop sync.Once
}

// ErrDrained is returned by Feed.Next when a drained feed has given its last delivery.
var ErrDrained = errors.New("feed drained")

// Open starts to pull, with at most ahead messages asked for and not yet returned by Next. A pull is
// asked for by Next alone.
func (c *Consumer) Open(ahead int) (*Feed, error) {
	opts := []jetstream.PullMessagesOpt{jetstream.PullMaxMessages(ahead), jetstream.WithMessagesErrOnMissingHeartbeat(false)}
	if c.conn.Replicas() > 1 {
		// In a cluster the first pull on a fresh consumer is sometimes lost; this finds out in a second.
		opts = append(opts, jetstream.PullHeartbeat(500*time.Millisecond))
	}
	it, err := c.c.Messages(opts...)
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return &Feed{conn: c.conn, it: it}, nil
}

// Next waits for a delivery. Its lease is kept alive until it is acknowledged, given back or dropped.
// When ctx ends the feed stays usable; what the server had sent meanwhile is returned by the next call.
func (f *Feed) Next(ctx context.Context) (*Delivery, error) {
	m, err := f.it.Next(jetstream.NextContext(ctx))
	switch {
	case errors.Is(err, jetstream.ErrMsgIteratorClosed):
		return nil, ErrDrained
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("pull: %w", err)
	}
	md, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	d := &Delivery{conn: f.conn, msg: m, Count: int(md.NumDelivered), Stored: Stored{
		Subject: m.Subject(), Seq: md.Sequence.Stream, Time: md.Timestamp, Header: m.Headers(), Body: m.Data(),
	}}
	f.conn.leases.hold(d, time.Time{})
	return d, nil
}

// Drain withdraws the pull; Next returns what was on its way and then ErrDrained.
func (f *Feed) Drain() { f.stop.Do(f.it.Drain) }

// Delivery is a message handed to this worker, under a lease that others wait out.
type Delivery struct {
	Stored
	Count int // how often the server says that it was delivered

	conn *Conn
	msg  jetstream.Msg
}

// Ack acknowledges: the message will not come again, but for a server that forgets. It does not wait.
func (d *Delivery) Ack() error {
	return d.release("ack", d.msg.Ack)
}

// Nak gives the message back; another worker gets it after the delay.
func (d *Delivery) Nak(delay time.Duration) error {
	return d.release("nak", func() error {
		if delay > 0 {
			return d.msg.NakWithDelay(delay)
		}
		return d.msg.Nak()
	})
}

func (d *Delivery) release(op string, do func() error) error {
	d.conn.leases.drop(d)
	if err := d.conn.intercept(Point{op, d.Subject, false}); err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s %s: %w", op, d.Subject, err)
	}
	return d.conn.intercept(Point{op, d.Subject, true})
}

// Until ends the delivery's lease at a time: work past its deadline is nobody's to keep.
func (d *Delivery) Until(t time.Time) { d.conn.leases.until(d, t) }

// Drop stops keeping the lease alive without a word to the server.
func (d *Delivery) Drop() { d.conn.leases.drop(d) }

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

// Beat renews the lease of every delivery in hand, four times within its length, until ctx ends. It
// runs in a goroutine of its own, so that no slow handler loses its lease.
func (c *Conn) Beat(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.AckWait / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			for _, d := range c.leases.alive(now) {
				if err := d.msg.InProgress(); errors.Is(err, nats.ErrConnectionClosed) {
					return fmt.Errorf("lease: %w", err)
				}
			}
		}
	}
}

// Follow calls fn for every stored message that the filter matches, from the first on, in order and
// without their bodies, until ctx ends. Caught is called once, when fn has seen all that was stored
// when Follow began.
func (c *Conn) Follow(ctx context.Context, filter string, fn func(Stored), caught func()) error {
	oc, err := c.js.OrderedConsumer(ctx, c.stream(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}, HeadersOnly: true})
	if err != nil {
		return fmt.Errorf("follow %s: %w", filter, err)
	}
	var once sync.Once
	info, err := oc.Info(ctx)
	if err != nil {
		return fmt.Errorf("follow %s: %w", filter, err)
	}
	if info.NumPending == 0 {
		once.Do(caught)
	}
	cc, err := oc.Consume(func(m jetstream.Msg) {
		md, err := m.Metadata()
		if err != nil {
			return
		}
		fn(Stored{Subject: m.Subject(), Seq: md.Sequence.Stream, Time: md.Timestamp, Header: m.Headers()})
		if md.NumPending == 0 {
			once.Do(caught)
		}
	})
	if err != nil {
		return fmt.Errorf("follow %s: %w", filter, err)
	}
	defer cc.Stop()
	<-ctx.Done()
	return context.Cause(ctx)
}
