package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Directory is the bucket of known agents: a value under each name.
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

// Get reads a value; ok is false if there is none.
func (d *Directory) Get(ctx context.Context, key string) (value []byte, rev uint64, ok bool, err error) {
	e, err := ask(ctx, d.conn, func(ctx context.Context) (jetstream.KeyValueEntry, error) { return d.kv.Get(ctx, key) })
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, fmt.Errorf("agent %s: %w", key, err)
	}
	return e.Value(), e.Revision(), true, nil
}

// Put stores a value.
func (d *Directory) Put(ctx context.Context, key string, value []byte) (rev uint64, err error) {
	rev, err = ask(ctx, d.conn, func(ctx context.Context) (uint64, error) { return d.kv.Put(ctx, key, value) })
	if err != nil {
		return 0, fmt.Errorf("agent %s: %w", key, err)
	}
	return rev, nil
}

// Delete removes a value if it is still that of the given revision.
func (d *Directory) Delete(ctx context.Context, key string, rev uint64) error {
	err := d.kv.Delete(ctx, key, jetstream.LastRevision(rev))
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("agent %s: %w", key, err)
	}
	return nil
}

// Watch calls fn for every value now and each change after, nil for a removed one, until ctx ends.
// Caught is called once, when fn has seen all that is there.
func (d *Directory) Watch(ctx context.Context, fn func(key string, value []byte), caught func()) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := ask(ctx, d.conn, func(attempt context.Context) (jetstream.KeyWatcher, error) { return d.watch(ctx, attempt) })
	if err != nil {
		return fmt.Errorf("watch agents: %w", err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("watch agents: closed")
			case e == nil:
				caught()
			case e.Operation() == jetstream.KeyValuePut:
				fn(e.Key(), e.Value())
			default:
				fn(e.Key(), nil)
			}
		}
	}
}

// watch makes one attempt to watch until ctx ends: what the library has subscribed to lasts for as long as the
// context that it is given, and that is longer than the attempt.
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
