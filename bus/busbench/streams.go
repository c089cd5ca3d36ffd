package busbench

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/bus"
)

// Volume is the size of the streams of runs and submissions.
type Volume struct {
	// Last is the number of messages of runs that were ever stored: the sum
	// of the streams' last sequences.
	Last uint64
	// Submitted is the number of submissions that were ever stored.
	Submitted uint64
	// Bytes is the size of the messages that are still stored.
	Bytes     uint64
	Consumers int
}

// VolumeOf returns the size of the streams, as their leaders count. The error
// is bus.ErrNoStream if there are none.
func VolumeOf(ctx context.Context, conn *bus.Conn) (v Volume, err error) {
	_, js := conn.NATS()
	submissions := conn.Space().Name("SUBMIT")
	for _, name := range append(names(conn), submissions) {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return Volume{}, bus.ErrNoStream
		}
		if err != nil {
			return Volume{}, fmt.Errorf("stream %s: %w", name, err)
		}
		state := s.CachedInfo().State
		if name == submissions {
			v.Submitted = state.LastSeq
			continue
		}
		v.Last += state.LastSeq
		v.Bytes += state.Bytes
		v.Consumers += state.Consumers
	}
	return v, nil
}

// InUse returns the name of a stream or bucket of the connection's space that
// has ever stored a message; "" if there is none.
func InUse(ctx context.Context, conn *bus.Conn) (stream string, _ error) {
	if err := conn.Provisioned(ctx); err != nil && !errors.Is(err, bus.ErrNoStream) {
		return "", err // the number of partitions is not known
	}
	_, js := conn.NATS()
	for _, name := range all(conn) {
		s, err := js.Stream(ctx, name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
		case err != nil:
			return "", fmt.Errorf("stream %s: %w", name, err)
		case s.CachedInfo().State.LastSeq > 0:
			return name, nil
		}
	}
	return "", nil
}

// Drop deletes all streams and buckets of the connection's space, with all that
// is in them.
func Drop(ctx context.Context, conn *bus.Conn) error {
	_, js := conn.NATS()
	var failed []error
	for _, stream := range all(conn) {
		if err := js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			failed = append(failed, fmt.Errorf("stream %s: %w", stream, err))
		}
	}
	return errors.Join(failed...)
}

// all lists the streams and those behind the buckets.
func all(conn *bus.Conn) []string {
	name := conn.Space().Name
	list := append(names(conn), name("SUBMIT"), name("RAW"), "OBJ_"+name("OBJECTS"))
	for _, bucket := range []string{"AGENTS", "LIMITS", "MEMORY", "WORKERS", "ACTIVE"} {
		list = append(list, "KV_"+name(bucket))
	}
	return list
}

// names lists the streams of runs.
func names(conn *bus.Conn) (list []string) {
	space := conn.Space()
	for p := range space.Partitions() {
		list = append(list, space.Stream(p).Name)
	}
	return list
}
