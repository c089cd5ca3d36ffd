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

// Consumer is a durable pull consumer from which many workers pull.
type Consumer struct {
	conn         *Conn
	stream, name string
	firstLease   time.Duration
	// creation is the server's newest answer about the consumer's creation;
	// nil before the first.
	creation atomic.Pointer[creation]
}

// creation says when a consumer was made.
type creation struct {
	at time.Time
	// asked is the time at which the server was asked.
	asked time.Time
}

// creationAge is the age at which the time of a consumer's creation counts as
// unknown. A worker that pulls waits at least as long before it makes a removed
// consumer again.
const creationAge = 500 * time.Millisecond

// createdAt returns the time at which the server made the consumer. It asks
// unless an answer is younger than creationAge. Calls at the same time may each
// ask. It tries until ctx ends.
func (c *Consumer) createdAt(ctx context.Context) (time.Time, error) {
	known, asked := c.creation.Load(), time.Now()
	if known != nil && asked.Sub(known.asked) < creationAge {
		return known.at, nil
	}
	there, err := ask(ctx, c.conn, func(ctx context.Context) (jetstream.Consumer, error) {
		return c.conn.js.Consumer(ctx, c.stream, c.name)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("consumer %s: %w", c.name, err)
	}
	c.creation.Store(&creation{there.CachedInfo().Created, asked})
	return there.CachedInfo().Created, nil
}

// ConsumerConfig is the configuration of a consumer.
type ConsumerConfig struct {
	// Stream is "RUNS" or "SUBMIT".
	Stream string
	// Partition is the partition of RUNS.
	Partition int
	Name      string
	// Filters are the subjects that are delivered.
	Filters []string
	// HeadersOnly leaves the bodies out.
	HeadersOnly bool
	// FirstLease is the lease of a first delivery; 0: Config.AckWait. A
	// short one suits messages that a worker handles at once, and twice
	// without harm.
	FirstLease time.Duration
}

// Consumer creates a durable consumer, which begins with the first message of
// its stream. A consumer that is there takes over cfg. The number of deliveries
// of a message, and of deliveries in flight, is unlimited: slots limit work,
// and the worker counts deliveries itself.
func (c *Conn) Consumer(ctx context.Context, cfg ConsumerConfig) (*Consumer, error) {
	made, created, err := Consumers{c}.create(ctx, cfg, 0)
	if err == nil {
		made.creation.Store(created)
	}
	return made, err
}

// consumerConfig returns the stream of a consumer, and its configuration as the
// server knows it.
func (c Consumers) consumerConfig(cfg ConsumerConfig) (stream string, _ jetstream.ConsumerConfig) {
	stream = c.cfg.Space.Name(cfg.Stream)
	if cfg.Stream == "RUNS" {
		stream = c.streams.Load().names[cfg.Partition]
	}
	js := jetstream.ConsumerConfig{
		Durable:        cfg.Name,
		FilterSubjects: cfg.Filters,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        c.cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  -1,
		MaxWaiting:     4096,
		HeadersOnly:    cfg.HeadersOnly,
	}
	if cfg.FirstLease > 0 {
		js.BackOff = []time.Duration{min(cfg.FirstLease, c.cfg.AckWait), c.cfg.AckWait}
	}
	return stream, js
}

// Delivery is a message that this worker has received, under a lease. The
// server delivers it again, to any worker, when the lease is over.
type Delivery struct {
	Stored
	// Count is the number of deliveries of the message, as the server
	// counts them. The first one is 1.
	Count int
	// Received is the time at which this process received the message, by
	// its own clock.
	Received time.Time
	// Waiting is the number of messages that the consumer had yet to
	// deliver.
	Waiting int

	conn *Conn
	from *Consumer
	id   message
	// msg is the newest delivery of the message to any worker, as far as
	// this one knows.
	msg   atomic.Pointer[nats.Msg]
	lease lease
}

// Replayed reports whether the message is older than its consumer. An earlier
// consumer, which was removed, may have delivered it, and another worker may
// have it in hand (Workers.Keeps). Replayed is true as well if the server does
// not say when the consumer was made.
func (d *Delivery) Replayed(ctx context.Context) bool {
	created, err := d.from.createdAt(ctx)
	return err != nil || d.id.stored < created.UnixNano()
}

// PredatesConsumer is Replayed as far as this worker knows it without asking
// the server. Of a consumer of ConsumerAfter it knows nothing: that one is made
// for a message.
func (d *Delivery) PredatesConsumer() bool {
	known := d.from.creation.Load()
	return known != nil && d.id.stored < known.at.UnixNano()
}

// Ack acknowledges the message without waiting for the server. The message
// comes again only if the acknowledgement is lost: on its way, or by the
// server. None is sent if the stream may have been replaced: another message
// may have the sequence.
func (d *Delivery) Ack() error {
	return d.release("ack", func() error {
		if !d.conn.Health.isConfirmed() {
			return errUnconfirmed
		}
		return d.msg.Load().Ack()
	})
}

// Nak gives the message back. The server delivers it again after the delay, to
// any worker. Nothing happens if the lease may be over: the worker that has the
// message by now would lose it.
func (d *Delivery) Nak(delay time.Duration) error {
	if d.LeaseExpired() {
		return nil
	}
	return d.release("nak", func() error {
		if delay > 0 {
			return d.msg.Load().NakWithDelay(delay)
		}
		return d.msg.Load().Nak()
	})
}

// Leave forgets the delivery without a word to the server: another worker keeps
// the message.
func (d *Delivery) Leave() { d.conn.leases.drop(d) }

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

// LimitLease stops the renewal of the lease at t: a worker must not keep work
// past its deadline.
func (d *Delivery) LimitLease(t time.Time) { d.conn.leases.limit(d, t) }

// LeaseExpired reports whether the lease may be over (OnLeaseExpired).
func (d *Delivery) LeaseExpired() bool {
	return d.conn.leases.expired(d, time.Now(), d.conn.cfg.AckWait)
}

// OnLeaseExpired calls fn once when the lease may be over: no renewal has
// reached the server for the length of the lease, and another worker may have
// the message. If the delivery was let go for that already, it calls fn before
// it returns. fn holds up all leases: it must return at once, and must not call
// a method of a Delivery. After the caller has called stop, fn is not called
// any more.
func (d *Delivery) OnLeaseExpired(fn func()) (stop func()) {
	d.conn.leases.onExpired(d, fn)
	return func() { d.conn.leases.onExpired(d, nil) }
}

// Follow calls fn for every stored message that the filter matches, from the
// first one on, until ctx ends. The messages of one stream come in order.
// Several partitions are followed at once, and fn may then run in several
// goroutines at once. Caught is called once, when fn has seen all messages that
// were stored when Follow began.
func (c *Conn) Follow(ctx context.Context, filter string, fn func(Stored), caught func()) error {
	names := c.streams.Load().streamsOf(filter)
	var behind atomic.Int32
	behind.Store(int32(len(names)))
	all, ctx := errgroup.WithContext(ctx)
	oneCaughtUp := func() {
		if behind.Add(-1) == 0 {
			caught()
		}
	}
	for _, stream := range names {
		f := &follower{conn: c, stream: stream, filter: filter, fn: fn, caught: sync.OnceFunc(oneCaughtUp)}
		all.Go(func() error { return f.run(ctx) })
	}
	return all.Wait()
}
