package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Directory is the bucket of known agents: a value under each name.
type Directory struct{ kv jetstream.KeyValue }

// Directory opens the bucket that Provision made.
func (c *Conn) Directory(ctx context.Context) (*Directory, error) {
	kv, err := c.js.KeyValue(ctx, c.cfg.Space.Name("AGENTS"))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", c.cfg.Space.Name("AGENTS"), err)
	}
	return &Directory{kv}, nil
}

// Get reads a value; ok is false if there is none.
func (d *Directory) Get(ctx context.Context, key string) (value []byte, rev uint64, ok bool, err error) {
	e, err := d.kv.Get(ctx, key)
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
	if rev, err = d.kv.Put(ctx, key, value); err != nil {
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
	w, err := d.kv.WatchAll(ctx)
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
