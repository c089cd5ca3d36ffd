package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Directory is the bucket of the known agents' cards: a value under each name.
// It has the grants of workers too, which its methods leave out (Grants).
type Directory struct {
	conn *Conn
	kv   jetstream.KeyValue
}

// Directory opens the bucket that Provision made.
func (c *Conn) Directory(ctx context.Context) (*Directory, error) {
	kv, err := ask(ctx, c, func(ctx context.Context) (jetstream.KeyValue, error) {
		return c.js.KeyValue(ctx, c.cfg.Space.Name("AGENTS"))
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", c.cfg.Space.Name("AGENTS"), err)
	}
	return &Directory{c, kv}, nil
}

// Get reads the value of a key; ok is false if there is none. It tries until
// ctx ends.
func (d *Directory) Get(ctx context.Context, key string) (value []byte, rev uint64, ok bool, err error) {
	ms, err := d.list(ctx, key)
	if err != nil || len(ms) == 0 {
		return nil, 0, false, err
	}
	return ms[0].Body, ms[0].Seq, true, nil
}

// All reads all keys with their values. It tries until ctx ends.
func (d *Directory) All(ctx context.Context) (map[string][]byte, error) {
	ms, err := d.list(ctx, "*")
	values := make(map[string][]byte, len(ms))
	beginning := agentsBucket(d.conn).subject("")
	for _, m := range ms {
		values[strings.TrimPrefix(m.Subject, beginning)] = m.Body
	}
	return values, err
}

// list reads the last messages of the keys that a pattern matches. It tries
// until ctx ends.
func (d *Directory) list(ctx context.Context, keys string) (ms []Stored, _ error) {
	b := agentsBucket(d.conn)
	err := d.conn.inflight.retry(ctx, func() (again bool, err error) {
		ms, again, err = b.list(ctx, keys, time.Time{})
		return again, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s, key %s: %w", b, keys, err)
	}
	return ms, nil
}

// Put stores a value, whatever value the key has. It tries until ctx ends.
func (d *Directory) Put(ctx context.Context, key string, value []byte) (rev uint64, err error) {
	rev, err = ask(ctx, d.conn, func(ctx context.Context) (uint64, error) { return d.kv.Put(ctx, key, value) })
	if err != nil {
		return 0, fmt.Errorf("agent %s: %w", key, err)
	}
	return rev, nil
}

// PutTogether stores the values of at most 1,000 keys, all of them or none,
// whatever values the keys have. A server that syncs each write syncs once for
// all of them. But each call costs it some milliseconds, as much as several
// syncs of a fast disk. PutTogether tries once. A bucket that an earlier
// version made refuses it until Provision has changed the bucket.
func (d *Directory) PutTogether(ctx context.Context, values map[string][]byte) error {
	if len(values) == 0 {
		return nil
	}
	b := agentsBucket(d.conn)
	if err := d.conn.intercept(Point{"write", b.target("*"), false}); err != nil {
		return err
	}
	var ms []*nats.Msg
	for key, value := range values {
		msg := nats.NewMsg(b.target(key))
		msg.Data = value
		ms = append(ms, msg)
	}
	began := time.Now()
	_, err := storeBatch(ctx, d.conn, ms)
	d.conn.cfg.observe(OpWrite, ms[len(ms)-1].Subject, began, err)
	if err != nil {
		return fmt.Errorf("%d agents: %w", len(values), err)
	}
	return d.conn.intercept(Point{"write", b.target("*"), true})
}

// Delete removes the value of a key if the last revision of the key is rev;
// with rev 0 it removes any. Another revision is an error. Delete tries once.
func (d *Directory) Delete(ctx context.Context, key string, rev uint64) error {
	err := d.kv.Delete(ctx, key, jetstream.LastRevision(rev))
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("agent %s: %w", key, err)
	}
	return nil
}

// agentsBucket is the bucket of a Directory.
func agentsBucket(c *Conn) *bucket { return c.bucket("AGENTS", "") }

// Watch calls fn for every present value and for each later change, until ctx
// ends. The value of a removed key is nil. Caught is called once, when fn has
// seen all present values. If the bucket was removed and made again, Watch
// begins again with the new one: fn sees the keys that are gone, and may see a
// value once more.
func (d *Directory) Watch(ctx context.Context, fn func(key string, value []byte), caught func()) error {
	known := map[string]bool{}
	tell := func(key string, value []byte) {
		if value == nil {
			delete(known, key)
		} else {
			known[key] = true
		}
		if !d.conn.Grants.heard(key, value) {
			fn(key, value)
		}
	}
	caught = sync.OnceFunc(caught)
	for first := true; ; first = false {
		err := d.watchOnce(ctx, known, tell, caught)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if first && !errors.Is(err, errReplaced) {
			return fmt.Errorf("watch agents: %w", err)
		}
		if err := d.conn.inflight.pause(ctx, followRetryDelay); err != nil {
			return err
		}
	}
}

// watchOnce watches until the bucket is another one, or ctx ends. Known are the
// keys that fn has seen in an earlier watch.
func (d *Directory) watchOnce(
	ctx context.Context, known map[string]bool, fn func(key string, value []byte), caught func(),
) error {
	b := agentsBucket(d.conn)
	// gone holds the known keys that this watch has not seen.
	gone := maps.Clone(known)
	f := follower{
		conn: d.conn, stream: b.streamName(), filter: b.subject(">"), bucket: true, pushed: true,
		fn: func(m Stored) {
			key := strings.TrimPrefix(m.Subject, b.subject(""))
			delete(gone, key)
			value := m.Body
			if isMarker(m) {
				value = nil
			} else if value == nil {
				value = []byte{}
			}
			fn(key, value)
		},
		caught: func() {
			for _, key := range slices.Sorted(maps.Keys(gone)) {
				fn(key, nil)
			}
			gone = nil
			caught()
		},
	}
	return f.run(ctx)
}
