package busbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/bus"
)

// Volume is the size of the streams of runs.
type Volume struct {
	// Last is the number of messages that were ever stored: the sum of the
	// streams' last sequences.
	Last uint64
	// Bytes is the size of the messages that are still stored.
	Bytes     uint64
	Consumers int
}

// VolumeOf returns the size of the streams of runs, as their leaders count. The
// error is bus.ErrNoStream if there are none.
func VolumeOf(ctx context.Context, conn *bus.Conn) (v Volume, err error) {
	_, js := conn.NATS()
	for _, name := range names(conn) {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return Volume{}, bus.ErrNoStream
		}
		if err != nil {
			return Volume{}, fmt.Errorf("stream %s: %w", name, err)
		}
		state := s.CachedInfo().State
		v.Last += state.LastSeq
		v.Bytes += state.Bytes
		v.Consumers += state.Consumers
	}
	return v, nil
}

// Drop deletes all streams and buckets of the connection's space, with all that
// is in them.
func Drop(ctx context.Context, conn *bus.Conn) error {
	_, js := conn.NATS()
	name := conn.Space().Name
	all := append(names(conn), name("SUBMIT"), name("RAW"), "OBJ_"+name("OBJECTS"),
		"KV_"+name("AGENTS"), "KV_"+name("LIMITS"), "KV_"+name("MEMORY"))
	var failed []error
	for _, stream := range all {
		if err := js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			failed = append(failed, fmt.Errorf("stream %s: %w", stream, err))
		}
	}
	return errors.Join(failed...)
}

// names lists the streams of runs.
func names(conn *bus.Conn) (all []string) {
	space := conn.Space()
	for p := range space.Partitions() {
		all = append(all, space.Stream(p).Name)
	}
	return all
}
