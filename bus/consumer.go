package bus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Consumer is a durable pull consumer that many workers serve.
type Consumer struct {
	conn *Conn
	next string // where pulls are sent
}

// ConsumerConfig names a consumer and says what it delivers.
type ConsumerConfig struct {
	Stream  string // "RUNS" or "SUBMIT"
	Part    int    // the partition, of runs
	Name    string
	Filters []string // subjects

	// Soon is how long a first delivery may go without a sign of life,
	// where that is not Config.AckWait: for messages that are dealt with at
	// once, and twice without harm.
	Soon time.Duration
}

// Consumer creates a durable consumer, or takes the one that is there.
// Deliveries are unlimited in number and in flight: slots limit work, and the
// worker counts deliveries itself.
func (c *Conn) Consumer(ctx context.Context, cfg ConsumerConfig) (*Consumer, error) {
	stream := c.cfg.Space.Name(cfg.Stream)
	if cfg.Stream == "RUNS" {
		stream = c.known.Load().streams[cfg.Part]
	}
	js := jetstream.ConsumerConfig{
		Durable:        cfg.Name,
		FilterSubjects: cfg.Filters,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        c.cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  -1,
		MaxWaiting:     4096,
	}
	if cfg.Soon > 0 {
		js.BackOff = []time.Duration{min(cfg.Soon, c.cfg.AckWait), c.cfg.AckWait}
	}
	if _, err := c.js.CreateOrUpdateConsumer(ctx, stream, js); err != nil {
		return nil, fmt.Errorf("consumer %s: %w", cfg.Name, err)
	}
	return &Consumer{c, c.reader.api + "CONSUMER.MSG.NEXT." + stream + "." + cfg.Name}, nil
}

// Delivery is a message handed to this worker, under a lease that others wait
// out.
type Delivery struct {
	Stored
	// how often the server says that it was delivered
	Count int

	conn *Conn
	msg  *nats.Msg
	late bool // guarded by the leases of conn
}

// Ack acknowledges: the message will not come again, but for a server that
// forgets. It does not wait.
func (d *Delivery) Ack() error {
	return d.release("ack", func() error { return d.msg.Ack() })
}

// Nak gives the message back; another worker gets it after the delay. One whose
// lease may be over is not this process's to give: whoever has it would lose
// it.
func (d *Delivery) Nak(delay time.Duration) error {
	if d.LeaseExpired() {
		return nil
	}
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

// LimitLease ends the delivery's lease at a time: work past its deadline is nobody's
// to keep.
func (d *Delivery) LimitLease(t time.Time) { d.conn.leases.until(d, t) }

// LeaseExpired reports whether the lease may be over (OnLate).
func (d *Delivery) LeaseExpired() bool {
	return d.conn.leases.isLate(d, time.Now(), d.conn.cfg.AckWait)
}

// OnLeaseExpired has fn called, once and without waiting for it, when the lease may be
// over because the server has had no sign of life for as long as it lasts:
// another worker may have the message then. The caller calls stop, after which
// fn is not called any more.
func (d *Delivery) OnLeaseExpired(fn func()) (stop func()) {
	d.conn.leases.onLate(d, fn)
	return func() { d.conn.leases.onLate(d, nil) }
}

// Follow calls fn for every stored message that the filter matches, from the
// first on, without their bodies and in the order of their streams, until ctx
// ends; for those of several partitions at once. Caught is called once, when fn
// has seen all that was stored when Follow began.
func (c *Conn) Follow(ctx context.Context, filter string, fn func(Stored), caught func()) error {
	streams := c.known.Load().streamsOf(filter)
	var behind atomic.Int32
	behind.Store(int32(len(streams)))
	all, ctx := errgroup.WithContext(ctx)
	for _, stream := range streams {
		all.Go(func() error {
			return c.follow(ctx, stream, filter, fn, func() {
				if behind.Add(-1) == 0 {
					caught()
				}
			})
		})
	}
	return all.Wait()
}

func (c *Conn) follow(ctx context.Context, stream, filter string, fn func(Stored), caught func()) error {
	oc, err := ask(ctx, c, func(ctx context.Context) (jetstream.Consumer, error) {
		return c.js.OrderedConsumer(
			ctx,
			stream,
			jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}, HeadersOnly: true},
		)
	})
	if err != nil {
		return fmt.Errorf("follow %s: %w", filter, err)
	}
	var once sync.Once
	// as it was created: a server that restarts knows it no more
	if oc.CachedInfo().NumPending == 0 {
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
