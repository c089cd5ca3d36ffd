package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bucket is a key-value bucket with as many replicas as the streams. Its method
// do makes it if it is missing, and again after its removal. Activity, Memory,
// RateLimit and Workers are thin types over it. A bucket is safe for concurrent
// use.
//
// Directory uses one for its reads and for PutTogether. Provision makes that
// bucket. Put and Delete of a Directory use the client library's type.
type bucket struct {
	conn        *Conn
	name        string
	description string
	// maxAge is the time after which the server removes a value that was
	// not stored again. With 0 it keeps all values.
	maxAge time.Duration

	// found says that this connection has found or made the bucket.
	found atomic.Bool
}

func (c *Conn) bucket(name, description string) *bucket {
	return &bucket{conn: c, name: c.cfg.Space.Name(name), description: description}
}

// String names the bucket as the nats CLI does.
func (b *bucket) String() string { return "bucket " + b.name }

func (b *bucket) streamName() string { return "KV_" + b.name }

// subject is the subject of a key, or of all keys that a pattern matches.
func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// target is the subject to which a value of a key is published. For JetStream
// in another domain it begins with the prefix of that domain's API.
func (b *bucket) target(key string) string {
	if api := b.conn.reader.api; api != jetstream.DefaultAPIPrefix {
		return api + b.subject(key)
	}
	return b.subject(key)
}

// swap stores a value if the last revision of the key is was. With 0 the key
// must have no message, not even the marker of a deletion. swap tries until ctx
// ends. The error wraps a *ConflictError if the key has another revision. After
// a lost acknowledgement that revision may be the value itself.
func (b *bucket) swap(ctx context.Context, key string, was uint64, value []byte) (rev uint64, err error) {
	if err := b.conn.intercept(Point{"write", b.target(key), false}); err != nil {
		return 0, err
	}
	if rev, err = b.store(ctx, key, was, value); err != nil {
		return 0, err
	}
	return rev, b.conn.intercept(Point{"write", b.target(key), true})
}

// store is swap without the points at which a test intervenes.
func (b *bucket) store(ctx context.Context, key string, was uint64, value []byte) (rev uint64, err error) {
	msg := nats.NewMsg(b.target(key))
	msg.Data = value
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(was, 10))
	err = b.do(ctx, func() (again bool, err error) {
		ack, err := b.conn.once(ctx, msg)
		if err != nil {
			return b.conn.failed(ctx, After(b.subject(key), was), err)
		}
		rev = ack.Sequence
		return false, nil
	})
	return rev, err
}

// get reads from the bucket's stream once.
func (b *bucket) get(ctx context.Context, g directGet) (ms []Stored, again bool, err error) {
	return b.conn.reader.askOnce(ctx, b.streamName(), g)
}

// list reads the last messages of the keys that a pattern matches. It reads
// page after page, and repeats no request. With a since it reads only the
// messages that the server stored since that time. It leaves out the markers of
// deleted keys. A key that is written meanwhile may appear twice.
func (b *bucket) list(ctx context.Context, keys string, since time.Time) (all []Stored, again bool, err error) {
	var seq uint64
	for more := true; more; {
		next := pageAfter(b.subject(keys), seq)
		if len(all) == 0 && !since.IsZero() {
			next.Seq, next.StartTime = 0, b.conn.Clocks.serverTime(since)
		}
		page, again, err := b.get(ctx, next)
		if err != nil {
			return nil, again, err
		}
		all = append(all, page...)
		seq, more = pageEnd(page)
	}
	return slices.DeleteFunc(all, isMarker), false, nil
}

// isMarker reports whether a message of a bucket says that its key was deleted.
func isMarker(m Stored) bool { return m.Header.Get("KV-Operation") != "" }

// do makes the bucket if it is missing, and calls op until op asks for no
// repetition or ctx ends. Before each repetition it looks for the bucket again,
// since a person may have removed it.
func (b *bucket) do(ctx context.Context, op func() (again bool, err error)) error {
	err := b.conn.inflight.retry(ctx, func() (bool, error) {
		var again bool
		err := b.conn.inflight.several(ctx, func(ctx context.Context) (err error) {
			if again, err = b.open(ctx); err == nil {
				again, err = op()
			}
			return err
		})
		// A broken connection cancels the call. It is made again.
		again = !Forbidden(err) && (again || errors.Is(err, context.Canceled) && ctx.Err() == nil)
		if again {
			b.found.Store(false)
		}
		return again, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", b, err)
	}
	return nil
}

// open makes the bucket, unless it is there. Again is true if a later attempt
// may succeed.
func (b *bucket) open(ctx context.Context) (again bool, err error) {
	if b.found.Load() {
		return false, nil
	}
	if !b.conn.provisioned() {
		if err := b.conn.Provisioned(ctx); err != nil {
			return false, err
		}
	}
	_, err = b.conn.js.Stream(ctx, b.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = b.conn.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: b.name, Description: b.description, Replicas: b.conn.Replicas(), TTL: b.maxAge,
			Storage: jetstream.FileStorage, History: 1,
		})
	}
	// Another writer may have made it first.
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return b.conn.failed(ctx, Fence{}, err)
	}
	b.found.Store(true)
	return false, nil
}
