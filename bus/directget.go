package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// directGet is a direct get of the server (ADR-31). Without a Batch it is about
// one message, and the server counts no messages that follow.
type directGet struct {
	// api is the prefix of the JetStream API, with a dot at its end. Empty:
	// it follows from the subjects.
	api       string
	Seq       uint64    `json:"seq,omitzero"`
	StartTime time.Time `json:"start_time,omitzero"`
	NextFor   string    `json:"next_by_subj,omitzero"`
	// LastFor is only for the leader of a stream (fromLeader).
	LastFor   string   `json:"last_by_subj,omitzero"`
	Batch     int      `json:"batch,omitzero"`
	MaxBytes  int      `json:"max_bytes,omitzero"`
	MultiLast []string `json:"multi_last,omitempty"`
}

// about is a subject or filter that the request is about.
func (g directGet) about() string {
	if len(g.MultiLast) > 0 {
		return g.MultiLast[0]
	}
	return g.NextFor
}

// pageAfter asks for one page of the messages after seq that a filter matches.
func pageAfter(filter string, seq uint64) directGet {
	return directGet{NextFor: filter, Seq: seq + 1, Batch: 1 << 16, MaxBytes: 16 << 20}
}

// pageEnd returns the sequence that the next page comes after; more is false if
// there is no next page.
func pageEnd(page []Stored) (seq uint64, more bool) {
	if len(page) == 0 {
		return 0, false
	}
	last := page[len(page)-1]
	return last.Seq, last.Header.Get(headerNumPending) != "0"
}

// headerNumPending is the number of messages that an answer has left out.
const headerNumPending = "Nats-Num-Pending"

// get asks the stream of runs that a filter belongs to.
func (c *Conn) get(ctx context.Context, filter string, g directGet) ([]Stored, error) {
	stream, err := c.streams.Load().streamOf(filter)
	if err != nil {
		return nil, err
	}
	return c.reader.ask(ctx, stream, g)
}

// ask asks until there is an answer or ctx ends. A server that restarts answers
// later. The error wraps ErrNotRead if the stream does not exist, or allows no
// direct gets, for longer than correctionTime.
func (r *reader) ask(ctx context.Context, stream string, g directGet) (ms []Stored, _ error) {
	var unknown time.Time
	err := r.inflight.retry(ctx, func() (again bool, err error) {
		ms, again, err = r.askOnce(ctx, stream, g)
		switch {
		case !errors.Is(err, errNoResponder):
			unknown = time.Time{}
		case unknown.IsZero():
			unknown = time.Now()
		case time.Since(unknown) > correctionTime:
			if why := r.conn.Health.unread(ctx, stream); why != nil {
				return false, why
			}
		}
		return again, err
	})
	return ms, err
}

// correctionTime is the time in which running workers correct a stream that
// answers no read.
const correctionTime = 10 * time.Second

// askOnce asks once. Again is true if there was no answer and may be one later.
func (r *reader) askOnce(ctx context.Context, stream string, g directGet) (ms []Stored, again bool, err error) {
	began := time.Now()
	ms, err = r.get(ctx, stream, g)
	r.conn.cfg.observe(OpRead, "", began, nil)
	switch {
	case !errors.Is(err, errNoAnswer):
		return ms, false, err
	case r.nc.IsClosed():
		return nil, false, fmt.Errorf("read: %w", nats.ErrConnectionClosed)
	}
	return nil, true, err
}

// reader sends direct gets and collects their answers. One subscription takes
// all answers, so that a read makes no subscription of its own.
//
// The client library's batch gets (orbit.go/jetstreamext: GetBatch and
// GetLastMsgsFor) subscribe for each read and wait for the server to confirm
// that. Measured here, one read costs 700 µs with them and 30 µs with a reader.
type reader struct {
	conn     *Conn
	nc       *nats.Conn
	inflight *inflight
	// api is the prefix of the JetStream API, with a dot at its end.
	api   string
	inbox string
	// next is the number of the newest request.
	next     atomic.Uint64
	requests atomic.Uint64
	messages atomic.Uint64

	// restricted says that the user reads through the workers.
	restricted atomic.Bool

	mu sync.Mutex
	// open holds the answers by the last token of their reply subjects.
	open map[string]*answer
}

// answer collects the messages that the server sends for one request.
type answer struct {
	ms []Stored
	// whole says that an answer that was cut short is an error.
	whole bool
	// one says that the answer is one message, without an end of its own.
	one bool
	// unplaced says that the header of a message does not show its place.
	// The message has the sequence 0.
	unplaced bool
	// last is the sequence of the last message, as the end of the answer
	// says it.
	last uint64
	err  error
	done chan struct{}
}

// errNoAnswer is the error of a read that may be tried again.
var errNoAnswer = errors.New("read: the server did not answer")

// errNoResponder is the error of a read of a stream that the server does not
// know, or that allows no direct gets. It is an errNoAnswer.
var errNoResponder = fmt.Errorf("%w: it knows no such stream", errNoAnswer)

func newReader(c *Conn, requests *inflight, api string) (*reader, error) {
	nc := c.nc
	r := &reader{conn: c, nc: nc, inflight: requests, api: api, inbox: nc.NewInbox(), open: map[string]*answer{}}
	sub, err := nc.Subscribe(r.inbox+".*", r.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe for reads: %w", err)
	}
	return r, sub.SetPendingLimits(-1, -1)
}

func (r *reader) get(ctx context.Context, stream string, g directGet) ([]Stored, error) {
	a, err := r.exchange(ctx, stream, g)
	switch {
	case err != nil:
		return nil, err
	case a.err == nil && a.unplaced:
		return r.readable(ctx, stream, g, a.ms)
	}
	return a.ms, a.err
}

// exchange sends a request and waits for its answer.
func (r *reader) exchange(ctx context.Context, stream string, g directGet) (*answer, error) {
	body, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	token := strconv.FormatUint(r.next.Add(1), 36)
	r.requests.Add(1)
	a := &answer{
		whole: len(g.MultiLast) > 0 && g.Batch == 0, one: g.Batch == 0 && len(g.MultiLast) == 0,
		done: make(chan struct{}),
	}
	r.mu.Lock()
	r.open[token] = a
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.open, token)
		r.mu.Unlock()
	}()
	subject := cmp.Or(g.api, apiOf(r.conn, g.about())) + "DIRECT.GET." + stream
	waiting, asked := r.inflight.begin(ctx, subject)
	defer asked.done()
	if err := r.nc.PublishRequest(subject, r.inbox+"."+token, body); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	select {
	case <-a.done:
		return a, nil
	case <-waiting.Done():
	}
	if ctx.Err() == nil {
		return nil, asked.reason(errNoAnswer)
	}
	return nil, fmt.Errorf("read: %w", context.Cause(ctx))
}

// receive takes the messages of all answers. The client library calls it for
// one message at a time.
func (r *reader) receive(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	r.mu.Lock()
	a := r.open[token]
	r.mu.Unlock()
	if a == nil {
		return
	}
	// Only the server's own messages without a place end an answer.
	s, whole := Stored{Body: m.Data}, isWhole(m)
	if whole {
		s = stored(r.conn.Clocks, m)
	}
	isEnd := whole && s.Seq == 0
	if !isEnd {
		r.messages.Add(1)
		a.ms = append(a.ms, s)
		a.unplaced = a.unplaced || !whole
		if !a.one {
			return
		}
	}
	r.mu.Lock()
	delete(r.open, token)
	r.mu.Unlock()
	if isEnd {
		a.end(m)
	}
	close(a.done)
}

// end takes the message that closes an answer. An answer about several subjects
// is useless if it was cut short: the missing part may hide messages.
func (a *answer) end(m *nats.Msg) {
	left, why := m.Header.Get(headerNumPending), m.Header.Get("Description")
	a.last, _ = strconv.ParseUint(m.Header.Get(jetstream.LastSequenceHeader), 10, 64)
	switch status := m.Header.Get("Status"); {
	case status == "204" && a.whole && left != "" && left != "0":
		// The server ends an answer after 64 MiB.
		a.err = ErrTooMany
	case status == "404" && a.whole && why != "No Results":
		// A message was removed during the read.
		a.err = errNoAnswer
	case status == "204", status == "404":
		// The end of the batch, or nothing was found.
	case status == "413":
		a.err = ErrTooMany
	case status == "503":
		a.err = errNoResponder
	default:
		a.err = fmt.Errorf("read: the server answered %s %s", status, why)
	}
}

// stored takes a message's place in the stream from the headers of a direct get
// or of a republished copy. The server appends its headers to those of the
// writer, which may have the same names.
func stored(cs *Clocks, m *nats.Msg) Stored {
	answer := placesIn(m.Header) > 1
	for _, name := range answerHeaders {
		if values := m.Header[name]; len(values) > 1 {
			m.Header[name] = values[len(values)-1:]
		}
	}
	s := Stored{Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header, Body: m.Data, answer: answer}
	s.Seq, _ = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	s.Time, _ = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	cs.pretend(&s)
	return s
}

// last asks a stream's leader for the last message that a filter matches; ok is
// false if there is none. Package jetstream does not do: with it any replica
// may answer if the stream allows direct gets.
func (c *Conn) last(ctx context.Context, stream, filter string) (s Stored, ok bool, err error) {
	return lastBy(ctx, c, apiOf(c, filter), stream, filter)
}

// lastBy is last under a prefix of the JetStream API.
func lastBy(ctx context.Context, c *Conn, api, stream, filter string) (s Stored, ok bool, err error) {
	s, ok, err = fromLeader(ctx, c, api, stream, directGet{LastFor: filter})
	if ok {
		s.Time = c.Clocks.stamp(s.Time)
	}
	return s, ok, err
}
