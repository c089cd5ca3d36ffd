package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Keys of the metadata of streams.
const (
	// metaMaxBytes is Provision.MaxBytes, on the first stream of runs.
	metaMaxBytes = "axe-max-bytes"
	// metaAged is the time before which a stream may have dropped messages
	// because it had a shorter age then.
	metaAged = "axe-aged"
	// metaForgotten is the last sequence that Forget may have removed.
	metaForgotten = "axe-forgotten"
)

// AgeFor returns the least age of messages for trees that may take a time. A
// quarter of the time is for what follows a tree's deadline: workers end its
// runs, and the timers of turns that have ended fire.
func AgeFor(longest time.Duration) time.Duration { return longest + longest/4 }

// retain gives existing streams the age and the size of a Provision, where it
// names them. It costs nothing later: the server drops old messages itself. A
// call that shortens the age reads the timers of all running roots. If the age
// is too short for one of their trees (AgeFor), retain returns an error and
// changes no stream.
func retain(ctx context.Context, c *Conn, p Provision) error {
	if p.MaxAge == 0 && p.MaxBytes == 0 {
		return nil
	}
	sp := c.cfg.Space.Spread(p.Partitions)
	names := treeStreams(sp)
	for _, name := range names[:p.Partitions] {
		s, err := c.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return wrapStream(name, err)
		}
		if age := s.CachedInfo().Config.MaxAge; p.MaxAge > 0 && (age == 0 || p.MaxAge < age) {
			if err := checkRunning(ctx, c, sp, name, p.MaxAge); err != nil {
				return err
			}
		}
	}
	for i, name := range names {
		err := amend(ctx, c, name, func(was *jetstream.StreamInfo, now *jetstream.StreamConfig) {
			if i == 0 && p.MaxBytes != 0 {
				now.Metadata[metaMaxBytes] = strconv.FormatInt(max(0, p.MaxBytes), 10)
			}
			setAge(now, was, p.MaxAge)
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
	}
	return nil
}

// amendAttempts is the number of times that amend writes a configuration.
const amendAttempts = 5

// amend changes the age or the metadata of a stream. The server replaces the
// whole configuration, so another process that has read it before may undo the
// change. So amend reads the configuration again after it has written it, and
// repeats a change that is not there.
func amend(
	ctx context.Context, c *Conn, name string, change func(was *jetstream.StreamInfo, now *jetstream.StreamConfig),
) error {
	for attempt := 0; ; attempt++ {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return wrapStream(name, err)
		}
		was := s.CachedInfo()
		now := was.Config
		now.Metadata = map[string]string{}
		maps.Copy(now.Metadata, was.Config.Metadata)
		change(was, &now)
		if now.MaxAge == was.Config.MaxAge && maps.Equal(now.Metadata, was.Config.Metadata) {
			return nil
		}
		if attempt == amendAttempts {
			return fmt.Errorf("stream %s: other processes undo the change of its configuration", name)
		}
		if _, err := c.js.UpdateStream(ctx, now); err != nil {
			return wrapStream(name, err)
		}
	}
}

// setAge sets the age of a stream's messages; 0 leaves it. Before it raises the
// age it notes which messages the stream may have dropped for the old one.
func setAge(now *jetstream.StreamConfig, was *jetstream.StreamInfo, age time.Duration) {
	if age == 0 || age == now.MaxAge {
		return
	}
	if old := aged(was); age > now.MaxAge && !old.IsZero() {
		now.Metadata[metaAged] = old.UTC().Format(time.RFC3339Nano)
	}
	now.MaxAge = age
	now.Duplicates = min(now.Duplicates, age)
}

// checkRunning returns an error if an age is too short for a running tree of a
// stream. A root has a timer from its second second on. A younger tree has
// a worker that reports the age as a fault, since it allows the tree that time.
func checkRunning(ctx context.Context, c *Conn, sp subjects.Space, stream string, age time.Duration) error {
	for page, err := range c.reader.pages(ctx, stream, sp.Timers(), 0) {
		if err != nil {
			return err
		}
		for _, t := range page {
			r, turn, err := sp.ParseTimer(t.Subject)
			at, ok := scheduled(t)
			if err != nil || !ok || turn != 0 || !r.Path.IsRoot() {
				continue
			}
			call, ok, err := c.last(ctx, stream, r.Call())
			if err != nil {
				return err
			}
			// The two times are of two clocks.
			takes := at.Sub(call.Time).Truncate(time.Second)
			if least := AgeFor(takes); ok && least > age {
				const text = "stream %s cannot keep messages for %s: the tree %s may take %s; " +
					"keep them for %s, wait for the tree, or cancel it"
				return fmt.Errorf(text, stream, age, r.Tree, takes, least)
			}
		}
	}
	return nil
}

// maxBytes returns the size of the streams of trees from which on no new tree
// begins, 0 for none.
func maxBytes(first *jetstream.StreamInfo) int64 {
	if first == nil {
		return 0
	}
	n, _ := strconv.ParseInt(first.Config.Metadata[metaMaxBytes], 10, 64)
	return n
}

// maxBytes returns Provision.MaxBytes of the streams, as far as it is known.
func (h *Health) maxBytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maxBytes(h.of(h.conn.cfg.Space.Stream(0).Name).info)
}

// treeStreams returns the names of the streams that hold what belongs to trees.
func treeStreams(sp subjects.Space) []string {
	return append(newStreams(sp).names, sp.Name("SUBMIT"), objectStream(sp))
}

// full is the fault of streams that have reached the size of
// Provision.MaxBytes; ok is false if they have not. The caller holds the lock.
func (h *Health) full() (f Fault, ok bool) {
	sp := h.conn.Space()
	first := h.of(sp.Stream(0).Name).info
	most := maxBytes(first)
	if most == 0 {
		return f, false
	}
	var size uint64
	for _, name := range treeStreams(sp) {
		if info := h.of(name).info; info != nil {
			size += info.State.Bytes
		}
	}
	return Fault{
		Kind: FaultFull, Stream: first.Config.Name, Limit: fmt.Sprintf("keep-bytes=%d", most),
		Problem: fmt.Sprintf("has reached the size of --keep-bytes with the streams beside it, %d bytes: "+
			"no new tree begins, and running trees go on", most),
		Advice: "agentd with a larger --keep-bytes or a shorter --keep, or axe forget",
	}, size >= uint64(most)
}

// roomAge is the age up to which the known size of a stream counts.
const roomAge = 3 * time.Second

// Room returns an error that wraps ErrNoRoom if no new tree may begin, because
// the streams have reached the size of Provision.MaxBytes. Without such a size
// it makes one request at most, and none if the streams are known.
//
// The server has no such limit for a stream of runs: it refuses a stream with
// schedules that discards new messages, and a stream that discards old ones
// would lose running trees.
func (h *Health) Room(ctx context.Context) error {
	sp := h.conn.Space()
	for i, name := range treeStreams(sp) {
		h.mu.Lock()
		known := h.of(name)
		fresh := known.info != nil && time.Since(known.read) < roomAge
		h.mu.Unlock()
		if i > 0 && h.maxBytes() == 0 {
			return nil
		}
		if fresh {
			continue
		}
		if _, err := h.info(ctx, name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f, full := h.full(); full {
		return fmt.Errorf("%w: %s", ErrNoRoom, f)
	}
	return nil
}
