package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Register is one small value that many change, each by compare-and-set: what
// is stored follows from what was there, or is refused. It is a key of a
// key-value bucket, which is made when it is first used, with as many replicas
// as the streams. A Register is safe for concurrent use.
type Register struct {
	bucket *Bucket
	key    string
}

// RateLimit is a register of what may be asked of a provider. The key is made of
// letters, digits, - and _. It asks nobody yet.
func (c *Conn) RateLimit(key string) *Register {
	return &Register{c.bucket("LIMITS", "What may be asked of providers, of all workers together"), key}
}

// String is where the value is, as the nats CLI names it.
func (r *Register) String() string { return r.bucket.String() + ", key " + r.key }

func (r *Register) subject() string { return "$KV." + r.bucket.name + "." + r.key }

// Read returns the value and its revision, 0 if there is none. It tries until
// ctx ends. A follower may lag: where a write was refused for a message, what
// is read holds that message if it is given as must.
func (r *Register) Read(ctx context.Context, must uint64) (value []byte, rev uint64, err error) {
	err = r.bucket.do(ctx, func(jetstream.Stream) (again bool, _ error) {
		// 5 s, after which the message may as well have been removed
		for range 500 {
			ms, again, err := r.bucket.page(ctx, request{MultiLast: []string{r.subject()}})
			if err != nil {
				return again, err
			}
			if len(ms) > 0 {
				value, rev = ms[0].Body, ms[0].Seq
			}
			if rev >= must {
				return false, nil
			}
			if err := Pause(ctx, 10*time.Millisecond); err != nil {
				return false, err
			}
		}
		return false, fmt.Errorf("message %d is not there", must)
	})
	return value, rev, err
}

// Swap stores a value in place of that of a revision. It tries until ctx ends.
// The error is a *ConflictError if another value is there; that may be this
// one, if an acknowledgement was lost.
func (r *Register) Swap(ctx context.Context, was uint64, value []byte) (rev uint64, err error) {
	msg := nats.NewMsg(r.bucket.target(r.key))
	msg.Data = value
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(was, 10))
	conn := r.bucket.conn
	if err := conn.intercept(Point{"write", msg.Subject, false}); err != nil {
		return 0, err
	}
	err = r.bucket.do(ctx, func(jetstream.Stream) (again bool, _ error) {
		ack, err := conn.once(ctx, msg)
		if err != nil {
			return conn.failed(ctx, After(r.subject(), was), err)
		}
		rev = ack.Sequence
		return false, nil
	})
	if err != nil {
		return 0, err
	}
	return rev, conn.intercept(Point{"write", msg.Subject, true})
}

// Watch calls fn, one value at a time, for the value that is there and every
// one that is stored after it, until ctx ends.
func (r *Register) Watch(ctx context.Context, fn func(value []byte, rev uint64)) error {
	failed := func(err error) error { return fmt.Errorf("watch %s: %w", r, err) }
	if _, _, err := r.bucket.open(ctx); err != nil {
		return failed(err)
	}
	oc, err := r.bucket.conn.js.OrderedConsumer(ctx, r.bucket.streamName(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.subject()}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return failed(err)
	}
	cc, err := oc.Consume(func(m jetstream.Msg) {
		if md, err := m.Metadata(); err == nil {
			fn(m.Data(), md.Sequence.Stream)
		}
	})
	if err != nil {
		return failed(err)
	}
	defer cc.Stop()
	<-ctx.Done()
	return context.Cause(ctx)
}
