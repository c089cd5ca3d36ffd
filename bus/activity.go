package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Activity is the bucket of the agents that have work, or had some: one small
// value for each agent and partition, changed by compare-and-set. An Activity
// is safe for concurrent use.
type Activity struct{ *bucket }

// Activity is the bucket of the agents with work. It makes no request yet.
func (c *Conn) Activity() *Activity {
	return &Activity{c.bucket("ACTIVE", "Agents that have work, of workers that serve many agents")}
}

// Record is a value of the bucket, with its revision.
type Record struct {
	Key   string
	Value []byte
	Rev   uint64
}

func (a *Activity) record(m Stored) Record {
	return Record{strings.TrimPrefix(m.Subject, a.subject("")), m.Body, m.Seq}
}

// Since reads the values that were stored after a revision, the oldest first.
// It makes the bucket if there is none. It tries until ctx ends.
func (a *Activity) Since(ctx context.Context, rev uint64) (all []Record, err error) {
	err = a.do(ctx, func() (again bool, _ error) {
		all = nil
		seq := rev
		for more := true; more; {
			page, again, err := a.get(ctx, pageAfter(a.subject(">"), seq))
			if err != nil {
				return again, err
			}
			for _, m := range page {
				all = append(all, a.record(m))
			}
			seq, more = pageEnd(page)
		}
		return false, nil
	})
	return all, err
}

// Get reads the value of a key from the leader of the bucket; ok is false if
// there is none. It tries until ctx ends.
func (a *Activity) Get(ctx context.Context, key string) (r Record, ok bool, err error) {
	m, ok, err := a.conn.last(ctx, a.streamName(), a.subject(key))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("%s, key %s: %w", a, key, err)
	}
	return a.record(m), ok, nil
}

// Swap stores a value if the last revision of the key is was; 0 means that the
// key has no value. It tries until ctx ends. The error wraps a *ConflictError
// if the key has another revision. After a lost acknowledgement that revision
// may be the value itself.
func (a *Activity) Swap(ctx context.Context, key string, was uint64, value []byte) (rev uint64, err error) {
	return a.swap(ctx, key, was, value)
}

// Notices calls fn when a writer has sent a value, until ctx ends. It returns
// at once. A read in fn may still miss the value: the server may not have
// stored it yet. Notices misses changes while the connection is down.
func (a *Activity) Notices(ctx context.Context, fn func()) error {
	return a.conn.Watch(ctx, a.subject(">"), func(Stored) { fn() })
}

// Consumers are the consumers of a connection, for workers that make and let go
// of them.
type Consumers struct{ *Conn }

// ConsumerAfter finds a consumer, or makes it if it is missing. A new consumer
// begins after the sequence seq of the stream. With seq 0 it begins with the
// first message. An existing consumer takes over cfg, and goes on from its own
// place.
func (c Consumers) ConsumerAfter(ctx context.Context, cfg ConsumerConfig, seq uint64) (*Consumer, error) {
	made, _, err := c.create(ctx, cfg, seq)
	return made, err
}

// create is ConsumerAfter. It also returns when the server made the consumer.
func (c Consumers) create(ctx context.Context, cfg ConsumerConfig, seq uint64) (*Consumer, *creation, error) {
	stream, want := c.consumerConfig(cfg)
	if seq > 0 {
		want.DeliverPolicy, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, seq+1
	}
	var there jetstream.Consumer
	var asked time.Time
	err := c.inflight.several(ctx, func(ctx context.Context) (err error) {
		asked = time.Now()
		there, err = c.js.CreateConsumer(ctx, stream, want)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			// The beginning of a consumer cannot be changed.
			keep := func(have jetstream.ConsumerConfig) jetstream.ConsumerConfig {
				want.DeliverPolicy = have.DeliverPolicy
				want.OptStartSeq, want.OptStartTime = have.OptStartSeq, have.OptStartTime
				return want
			}
			there, err = c.alterConsumer(ctx, stream, cfg.Name, keep)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("consumer %s: %w", cfg.Name, err)
	}
	made := &Consumer{conn: c.Conn, stream: stream, name: cfg.Name, firstLease: cfg.FirstLease}
	return made, &creation{there.CachedInfo().Created, asked}, nil
}

// alterConsumer changes the configuration of a consumer that is there.
func (c Consumers) alterConsumer(
	ctx context.Context, stream, name string, change func(jetstream.ConsumerConfig) jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	there, err := c.js.Consumer(ctx, stream, name)
	if err != nil {
		return nil, err
	}
	return c.js.UpdateConsumer(ctx, stream, change(there.CachedInfo().Config))
}

// consumerExpiry is the time without requests after which the server removes a
// consumer that may go (ExpireConsumer).
const consumerExpiry = 30 * time.Second

// ExpireConsumer lets the server remove a consumer from which no worker pulls
// for consumerExpiry. A later call of Consumer or ConsumerAfter keeps the
// consumer. A missing consumer is no error. ExpireConsumer asks once.
//
// The consumer is not removed at once. This process may have been stopped
// before the call, and other workers may pull from the consumer again.
func (c Consumers) ExpireConsumer(ctx context.Context, cfg ConsumerConfig) error {
	stream, _ := c.consumerConfig(cfg)
	if err := c.intercept(Point{"expire", cfg.Name, false}); err != nil {
		return err
	}
	ctx, r := c.inflight.begin(ctx, "")
	defer r.done()
	_, err := c.alterConsumer(ctx, stream, cfg.Name, func(have jetstream.ConsumerConfig) jetstream.ConsumerConfig {
		have.InactiveThreshold = consumerExpiry
		return have
	})
	gone := errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist)
	if err != nil && !gone {
		return fmt.Errorf("consumer %s: %w", cfg.Name, r.reason(err))
	}
	return c.intercept(Point{"expire", cfg.Name, true})
}

// Position is a consumer's place in its stream.
type Position struct {
	// Floor is the sequence up to which the consumer has nothing left: each
	// message that it matches is acknowledged.
	Floor uint64
	// Waiting is the number of messages that were not delivered yet, and
	// InHand that of those that were, and are not acknowledged.
	Waiting, InHand uint64
	// Requested says that a worker waits for messages.
	Requested bool
}

// Position reads the place of a consumer; ok is false if there is none.
func (c Consumers) Position(ctx context.Context, cfg ConsumerConfig) (p Position, ok bool, err error) {
	stream, _ := c.consumerConfig(cfg)
	there, err := ask(ctx, c.Conn, func(ctx context.Context) (jetstream.Consumer, error) {
		return c.js.Consumer(ctx, stream, cfg.Name)
	})
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("consumer %s: %w", cfg.Name, err)
	}
	info := there.CachedInfo()
	return Position{
		Floor: info.AckFloor.Stream, Waiting: info.NumPending, InHand: uint64(info.NumAckPending),
		Requested: info.NumWaiting > 0,
	}, true, nil
}

// Pending reports whether the consumer has messages to deliver, or messages
// that are not acknowledged.
func (p Position) Pending() bool { return p.Waiting > 0 || p.InHand > 0 }

// ConsumerNames lists the consumers of a partition.
func (c Consumers) ConsumerNames(ctx context.Context, partition int) ([]string, error) {
	return ask(ctx, c.Conn, func(ctx context.Context) ([]string, error) {
		s, err := c.js.Stream(ctx, c.streams.Load().names[partition])
		if err != nil {
			return nil, err
		}
		list := s.ConsumerNames(ctx)
		var all []string
		for name := range list.Name() {
			all = append(all, name)
		}
		return all, list.Err()
	})
}

// Newest returns the sequence of the newest message of a partition from the
// leader of its stream, 0 if there was no message.
func (c Consumers) Newest(ctx context.Context, partition int) (uint64, error) {
	return ask(ctx, c.Conn, func(ctx context.Context) (uint64, error) {
		s, err := c.js.Stream(ctx, c.streams.Load().names[partition])
		if err != nil {
			return 0, err
		}
		return s.CachedInfo().State.LastSeq, nil
	})
}

// Matches reports whether the leader of a partition's stream has a message
// after a sequence that one of the filters matches.
func (c Consumers) Matches(ctx context.Context, partition int, filters []string, seq uint64) (bool, error) {
	for _, filter := range filters {
		_, there, err := fromLeader(ctx, c.Conn, c.reader.api, c.streams.Load().names[partition],
			directGet{Seq: seq + 1, NextFor: filter})
		if there || err != nil {
			return there, err
		}
	}
	return false, nil
}
