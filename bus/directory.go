package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

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

// All reads the values of all keys. It tries until ctx ends.
func (d *Directory) All(ctx context.Context) (values [][]byte, _ error) {
	ms, err := d.list(ctx, "*")
	for _, m := range ms {
		values = append(values, m.Body)
	}
	return values, err
}

// list reads the last messages of the keys that a pattern matches. It tries
// until ctx ends.
func (d *Directory) list(ctx context.Context, keys string) (ms []Stored, _ error) {
	b := d.conn.bucket("AGENTS", "")
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

// Delete removes the value of a key if the last revision of the key is rev;
// with rev 0 it removes any. Another revision is an error. Delete tries once.
func (d *Directory) Delete(ctx context.Context, key string, rev uint64) error {
	err := d.kv.Delete(ctx, key, jetstream.LastRevision(rev))
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("agent %s: %w", key, err)
	}
	return nil
}

// Watch calls fn for every present value and for each later change, until ctx
// ends. The value of a removed key is nil. Caught is called once, when fn has
// seen all present values. The library's watch breaks when a server refuses it
// for a moment, and is deaf when the bucket was removed and made again: it
// waits for the sequence that comes after the old bucket's last one. Watch then
// begins again, and fn may see a value once more.
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
	var once sync.Once
	for first := true; ; first = false {
		began, err := d.watchOnce(ctx, known, tell, func() { once.Do(caught) })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if first && !began {
			return fmt.Errorf("watch agents: %w", err)
		}
		if err := d.conn.inflight.pause(ctx, watchRetryDelay); err != nil {
			return err
		}
	}
}

// watchRetryDelay is the pause before a broken watch begins again.
const watchRetryDelay = 500 * time.Millisecond

// watchLookInterval is the time between two looks whether the bucket is still
// the one that is watched.
const watchLookInterval = 16 * time.Second

// made returns the time at which the bucket was made. It is zero if no server
// says so.
func (d *Directory) made(ctx context.Context) time.Time {
	info, err := d.conn.Health.info(ctx, "KV_"+d.kv.Bucket())
	if err != nil {
		return time.Time{}
	}
	return info.Created
}

// watchOnce watches until the watch breaks, the bucket is another one, or ctx
// ends. Known are the keys that fn has seen in an earlier watch. Began is false
// if there was no watch.
func (d *Directory) watchOnce(
	ctx context.Context, known map[string]bool, fn func(key string, value []byte), caught func(),
) (began bool, _ error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	made := d.made(ctx)
	looks := time.NewTicker(watchLookInterval)
	defer looks.Stop()
	w, err := ask(ctx, d.conn,
		func(attempt context.Context) (jetstream.KeyWatcher, error) { return d.watch(ctx, attempt) })
	if err != nil {
		return false, err
	}
	defer func() { _ = w.Stop() }()
	// gone holds the known keys that this watch has not seen.
	gone := maps.Clone(known)
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-looks.C:
			if now := d.made(ctx); !now.IsZero() && !now.Equal(made) {
				return true, nil
			}
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return true, nil
			case e == nil:
				for _, key := range slices.Sorted(maps.Keys(gone)) {
					fn(key, nil)
				}
				gone = nil
				caught()
			case e.Operation() == jetstream.KeyValuePut:
				delete(gone, e.Key())
				fn(e.Key(), e.Value())
			default:
				delete(gone, e.Key())
				fn(e.Key(), nil)
			}
		}
	}
}

// watch makes one attempt to begin a watch that lasts until ctx ends. The
// library's subscription lasts as long as the context that it is given, and
// that has to be longer than the attempt.
func (d *Directory) watch(ctx, attempt context.Context) (jetstream.KeyWatcher, error) {
	own, stop := context.WithCancel(ctx)
	over := context.AfterFunc(attempt, stop)
	w, err := d.kv.WatchAll(own)
	if !over() || err != nil {
		stop()
		return nil, errors.Join(err, attempt.Err())
	}
	context.AfterFunc(ctx, stop)
	return w, nil
}
