package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Health is the condition of the streams, as this process sees it. A person may
// change, empty or remove a stream while workers run, and its disk may be full.
// Health learns from the measurements of Clocks, from its own requests and from
// the results of writes.
type Health struct {
	conn *Conn
	// refusing says that some stream has stored nothing since a write
	// failed.
	refusing atomic.Bool
	identity identity
	// replaced is ready after a stream was found to be replaced.
	replaced chan struct{}

	mu       sync.Mutex
	byStream map[string]*condition
}

// condition is the condition of a stream.
type condition struct {
	// info is the newest state of the stream; nil before the first.
	info *jetstream.StreamInfo
	// read is the local time at which info arrived.
	read time.Time
	// missing says that the stream does not exist.
	missing bool
	// lost is the fault of removed messages, or of a stream that was
	// removed and made again; nil if there is none.
	lost *Fault
	// refused is the time of the first failed write since a stored one, or
	// since a refusalMemory without any. It is zero after a stored write.
	refused time.Time
	// refusedLast is the time of the last write that failed.
	refusedLast time.Time
	// answer is the server's answer to that write; nil if there was none.
	answer *jetstream.APIError
}

const (
	// refusalMemory is the time after its last failed write for which a
	// stream counts as one that stores nothing. A writer repeats its write
	// more often than that.
	refusalMemory = 15 * time.Second
	// unansweredTime is the time after which a stream that leaves writes
	// without an answer is at fault. A server that is busy, or that moves
	// a stream to another leader, takes less.
	unansweredTime = 4 * time.Second
	// roundTrips is the least time that an attempt of a write waits for its
	// answer, in round trips to the server.
	roundTrips = 5
)

func newHealth(c *Conn) *Health {
	return &Health{
		conn: c, identity: identity{checking: make(chan struct{}, 1)}, replaced: make(chan struct{}, 1),
		byStream: map[string]*condition{},
	}
}

// of returns the condition of a stream. The caller holds the lock.
func (h *Health) of(stream string) *condition {
	c := h.byStream[stream]
	if c == nil {
		c = &condition{}
		h.byStream[stream] = c
	}
	return c
}

// forget forgets the conditions of all streams. Provision has made or corrected
// them.
func (h *Health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.byStream)
	h.refusing.Store(false)
}

// saw notes the result of a request for a stream, and returns the stream's
// state.
func (h *Health) saw(stream string, s jetstream.Stream, err error) (*jetstream.StreamInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.of(stream)
	if err != nil {
		c.missing = c.missing || errors.Is(err, jetstream.ErrStreamNotFound)
		return nil, wrapStream(stream, err)
	}
	info := s.CachedInfo()
	c.missing = false
	if c.info != nil && !c.replaced() {
		if f, ok := lost(c.info, info); ok {
			c.lost = &f
			if c.replaced() {
				pause.Notify(h.replaced)
			}
		}
	}
	c.info, c.read = info, time.Now()
	return info, nil
}

// stored notes that the stream of a subject has stored a message.
func (h *Health) stored(subject string) {
	if !h.refusing.Load() {
		return
	}
	stream, ok := h.streamOf(subject)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(stream).refused = time.Time{}
	h.refusing.Store(false)
	for _, c := range h.byStream {
		if !c.refused.IsZero() {
			h.refusing.Store(true)
		}
	}
}

// failed notes the error of a write. A missing answer or a full server is a
// failed write. A conflict shows that the stream stores messages. Other errors
// say nothing about the stream.
func (h *Health) failed(subject string, err error) {
	if _, conflict := errors.AsType[*ConflictError](err); conflict {
		h.stored(subject)
		return
	}
	stream, ok := h.streamOf(subject)
	if !ok || !silent(err) && !noRoom(err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.of(stream)
	now := time.Now()
	if c.refused.IsZero() || now.Sub(c.refusedLast) > refusalMemory {
		c.refused = now
	}
	c.refusedLast = now
	c.answer, _ = errors.AsType[*jetstream.APIError](err)
	h.refusing.Store(true)
}

// silent reports whether a write got no answer.
func silent(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// attempt sends a message once and waits for the answer. For a message with
// Patience it waits three quarters of that, or roundTrips if that is longer.
func (h *Health) attempt(ctx context.Context, m Message, msg *nats.Msg) (jetstream.PubAck, error) {
	if m.Patience > 0 {
		_, half := h.conn.Clocks.Offset()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(m.Patience*3/4, roundTrips*2*half))
		defer cancel()
	}
	if g := h.conn.streams.Load().commitOf(msg.Subject); g != nil {
		return g.store(ctx, msg)
	}
	return h.conn.once(ctx, msg)
}

// unanswered explains a write without an answer. It requests the state of the
// stream. If the server answers, the error says that the stream stores nothing.
// It is nil if the server does not answer that either.
func (h *Health) unanswered(ctx context.Context, subject string) error {
	stream, ok := h.streamOf(subject)
	if !ok {
		return nil
	}
	if _, err := h.info(ctx, stream); err != nil {
		return nil //nolint:nilerr // the server is away
	}
	return errors.New(unanswering(stream).String())
}

// streamOf returns the stream that stores a subject of a run or a submission.
func (h *Health) streamOf(subject string) (string, bool) {
	space := h.conn.Space()
	if at, err := space.Parse(subject); err == nil && at.Kind == subjects.Submission {
		return space.Name("SUBMIT"), true
	}
	stream, err := h.conn.streams.Load().streamOf(subject)
	return stream, err == nil
}

// Look requests the state of the streams behind the bucket of agents and the
// object store. Clocks do not measure these. A missing stream is no error, but
// one of the Faults.
func (h *Health) Look(ctx context.Context) error {
	for _, name := range bucketStreams(h.conn.Space()) {
		_, err := h.info(ctx, name)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
	}
	return nil
}

// Correct makes the stream of submissions, the bucket of agents and the object
// store again where they are missing. It corrects the settings of the streams
// of submissions and of runs. Provision alone makes a stream of runs.
func (h *Health) Correct(ctx context.Context) error {
	c := h.conn
	space := c.Space()
	p := Provision{Replicas: c.Replicas(), MaxAge: h.ageOfNew(), Partitions: space.Partitions()}
	submit := submitStream(space, p)
	streams := []jetstream.StreamConfig{submit}
	for part := range p.Partitions {
		streams = append(streams, runsStream(space, part, p))
	}
	var failed []error
	for _, want := range streams {
		info, err := h.info(ctx, want.Name)
		switch {
		case err == nil:
			err = correctSettings(ctx, c.js, info.Config, want)
		case errors.Is(err, jetstream.ErrStreamNotFound) && want.Name == submit.Name:
			_, err = c.js.CreateStream(ctx, want)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				err = nil // another worker has made it
			}
		}
		if err == nil {
			_, err = h.info(ctx, want.Name)
		}
		failed = append(failed, err)
	}
	failed = append(failed, ensureBuckets(ctx, c.js, space, p), h.Look(ctx))
	return errors.Join(failed...)
}

// Faults returns the known faults of the streams. Longest is the longest time
// that a tree may take.
func (h *Health) Faults(longest time.Duration) (all []Fault) {
	space := h.conn.Space()
	p := Provision{Partitions: space.Partitions()}
	h.mu.Lock()
	defer h.mu.Unlock()
	for part := range p.Partitions {
		all = append(all, h.of(space.Stream(part).Name).faults(runsStream(space, part, p), longest)...)
	}
	for i := range all {
		all[i].OfRuns = true
	}
	if f, full := h.full(); full {
		all = append(all, f)
	}
	submit := submitStream(space, p)
	all = append(all, h.of(submit.Name).faults(submit, 0)...)
	for _, name := range bucketStreams(space) {
		switch c := h.of(name); {
		case c.missing:
			all = append(all, missing(name))
		case c.replaced():
			all = append(all, *c.lost)
		case name == objectStream(space) && c.info != nil:
			all = append(all, drops(c.info.Config, longest)...)
		}
	}
	return all
}

// Trouble returns the fault of the first stream of runs that stores nothing, in
// one line; "" if there is none.
func (h *Health) Trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range h.conn.streams.Load().names {
		if c := h.byStream[name]; c != nil && c.info != nil {
			for _, f := range c.room() {
				return f.String()
			}
		}
	}
	return ""
}

// faults returns the faults of a stream. Want has the settings that it needs.
// Longest is 0 for a stream without runs. Its messages may be removed.
func (c *condition) faults(want jetstream.StreamConfig, longest time.Duration) (all []Fault) {
	switch {
	case c.missing:
		return []Fault{missing(want.Name)}
	case c.info == nil:
		return nil
	}
	all = drops(c.info.Config, longest)
	dropping := len(all) > 0
	if f, ok := settings(c.info.Config, want); ok {
		all = append(all, f)
	}
	if longest > 0 && c.lost != nil && (!dropping || c.replaced()) {
		all = append(all, *c.lost)
	}
	return append(all, c.room()...)
}

// replaced reports whether the stream was removed and made again, or restored,
// since it was provisioned.
func (c *condition) replaced() bool { return c.lost != nil && c.lost.Kind == FaultReplaced }

// room returns the fault of a stream that stores nothing although its server
// answers. It needs c.info.
func (c *condition) room() []Fault {
	stream := c.info.Config.Name
	switch {
	case c.refused.IsZero() || time.Since(c.refusedLast) > refusalMemory:
		return nil
	case c.answer != nil:
		return []Fault{refuses(stream, c.answer)}
	case c.refusedLast.Sub(c.refused) < unansweredTime || c.read.Before(c.refused):
		return nil
	}
	return []Fault{unanswering(stream)}
}

// info requests the configuration and the state of a stream once, and notes the
// result.
func (h *Health) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	s, err := askOnce(ctx, h.conn, func(ctx context.Context) (jetstream.Stream, error) {
		return h.conn.js.Stream(ctx, stream)
	})
	return h.saw(stream, s, err)
}

// ErrNotRead is wrapped by the error of a read from a stream that answers no
// read and will not answer one soon.
var ErrNotRead = errors.New("cannot be read")

// unread explains why no server answers the reads of a stream. It returns nil
// if an answer may come in a moment.
func (h *Health) unread(ctx context.Context, stream string) error {
	info, err := h.info(ctx, stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("stream %s %w: it does not exist any more", stream, ErrNotRead)
	case err == nil && !info.Config.AllowDirect:
		return fmt.Errorf("stream %s %w: it does not allow direct gets; to correct it: "+
			"nats stream edit %s --allow-direct", stream, ErrNotRead, stream)
	}
	return nil
}
