package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Bucket is a list of small values for each agent, in the order in which the
// server stored them. It is a key-value bucket with a key for each value,
// <agent>.<time>-<id>: writers never meet, so none is refused. It is made when
// it is first used, with as many replicas as the streams, and again if somebody
// removes it. A Bucket is safe for concurrent use.
type Bucket struct {
	conn        *Conn
	name        string
	description string

	mu sync.Mutex
	// nil until it was found or made
	stream jetstream.Stream
}

// Memory is the bucket of what agents remember. It asks nobody yet.
func (c *Conn) Memory() *Bucket { return c.bucket("MEMORY", "What agents remember of their runs") }

func (c *Conn) bucket(name, description string) *Bucket {
	return &Bucket{conn: c, name: c.cfg.Space.Name(name), description: description}
}

// String is where the values are, as the nats CLI names it.
func (b *Bucket) String() string { return "bucket " + b.name }

// Append stores a value after all others of an agent. It tries until ctx ends,
// and stores it once.
func (b *Bucket) Append(ctx context.Context, agent subjects.Agent, value []byte) error {
	msg := nats.NewMsg(b.target(agent.String() + "." + time.Now().UTC().Format("20060102T150405Z") + "-" + NewID()))
	msg.Data = value
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, "0")
	if err := b.conn.intercept(Point{"write", msg.Subject, false}); err != nil {
		return err
	}
	err := b.do(ctx, func(jetstream.Stream) (again bool, _ error) {
		_, err := b.conn.once(ctx, msg)
		if api, ok := errors.AsType[*jetstream.APIError](err); ok &&
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			// by an attempt whose acknowledgement was lost: nobody
			// else has the key
			return false, nil
		}
		return b.failed(ctx, err)
	})
	if err != nil {
		return err
	}
	return b.conn.intercept(Point{"write", msg.Subject, true})
}

// Values reads all of an agent's, the oldest first.
func (b *Bucket) Values(ctx context.Context, agent subjects.Agent) ([][]byte, error) {
	ms, err := b.list(ctx, agent)
	values := make([][]byte, len(ms))
	for i, m := range ms {
		values[i] = m.Body
	}
	return values, err
}

// Trim removes an agent's oldest values, all but the last keep. One that is
// stored meanwhile stays: what is removed was there when the others were
// counted.
func (b *Bucket) Trim(ctx context.Context, agent subjects.Agent, keep int) (removed int, err error) {
	ms, err := b.list(ctx, agent)
	old := len(ms) - max(keep, 0)
	if err != nil || old <= 0 {
		return 0, err
	}
	return old, b.do(ctx, func(s jetstream.Stream) (again bool, _ error) {
		return b.failed(
			ctx,
			s.Purge(ctx, jetstream.WithPurgeSubject(b.filter(agent)), jetstream.WithPurgeSequence(ms[old-1].Seq+1)),
		)
	})
}

// list reads the messages of an agent's keys, without the markers of keys that
// somebody has deleted.
func (b *Bucket) list(ctx context.Context, agent subjects.Agent) ([]Stored, error) {
	var all []Stored
	next := request{NextFor: b.filter(agent), Seq: 1, Batch: 1 << 16, MaxBytes: 16 << 20}
	err := b.do(ctx, func(jetstream.Stream) (again bool, _ error) {
		for {
			page, again, err := b.page(ctx, next)
			if err != nil || len(page) == 0 {
				return again, err
			}
			all = append(all, page...)
			next.Seq = page[len(page)-1].Seq + 1
			if page[len(page)-1].Header.Get("Nats-Num-Pending") == "0" {
				return false, nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m Stored) bool { return m.Header.Get("KV-Operation") != "" }), nil
}

func (b *Bucket) page(ctx context.Context, r request) (ms []Stored, again bool, err error) {
	return b.conn.getOnce(ctx, b.streamName(), r)
}

// do carries out an operation. Where it may be tried again, the bucket is
// looked for again first: it may have been removed.
func (b *Bucket) do(ctx context.Context, op func(jetstream.Stream) (again bool, err error)) error {
	err := b.conn.waits.retry(ctx, func() (bool, error) {
		s, again, err := b.open(ctx)
		if err == nil {
			again, err = op(s)
		}
		if again {
			b.use(nil)
		}
		return again, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	return nil
}

// open finds the bucket's stream, or makes the bucket.
func (b *Bucket) open(ctx context.Context) (_ jetstream.Stream, again bool, err error) {
	b.mu.Lock()
	s := b.stream
	b.mu.Unlock()
	if s != nil {
		return s, false, nil
	}
	if !b.conn.provisioned() {
		if err := b.conn.Provisioned(ctx); err != nil {
			return nil, false, err
		}
	}
	s, err = b.conn.js.Stream(ctx, b.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = b.create(ctx)
	}
	if err != nil {
		again, err = b.failed(ctx, err)
		return nil, again, err
	}
	b.use(s)
	return s, false, nil
}

func (b *Bucket) create(ctx context.Context) (jetstream.Stream, error) {
	_, err := b.conn.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: b.name, Description: b.description, Replicas: b.conn.Replicas(), Storage: jetstream.FileStorage, History: 1,
	})
	// somebody else was quicker
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return nil, err
	}
	return b.conn.js.Stream(ctx, b.streamName())
}

func (b *Bucket) use(s jetstream.Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream = s
}

// failed decides about errors as for any write.
func (b *Bucket) failed(ctx context.Context, err error) (again bool, _ error) {
	if err == nil {
		return false, nil
	}
	return b.conn.failed(ctx, Fence{}, err)
}

func (b *Bucket) streamName() string { return "KV_" + b.name }

func (b *Bucket) filter(agent subjects.Agent) string {
	return "$KV." + b.name + "." + agent.String() + ".*"
}

// target is where a key's value is published: JetStream in another domain is
// reached through its API.
func (b *Bucket) target(key string) string {
	subject := "$KV." + b.name + "." + key
	if api := b.conn.reader.api; api != jetstream.DefaultAPIPrefix {
		return api + subject
	}
	return subject
}
