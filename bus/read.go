package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Stored is a message of a stream.
type Stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Body    []byte // by reference until Conn.Load
}

// FirstOnSubject reports whether the message was stored under a fence that
// says so. The server keeps the fence with the message, and stores none whose
// fence does not hold.
func (m Stored) FirstOnSubject() bool {
	before, ok := m.before()
	return ok && before == 0
}

// before is the message before this one on its subject, if it was stored under
// a fence that says so.
func (m Stored) before() (seq uint64, ok bool) {
	if m.Header.Get(headerFenceSubject) != "" {
		return 0, false
	}
	return m.Fence()
}

// Fence is the sequence that the last message of the subject, or of the one
// that its writer fenced it by, had when this one was stored; ok is false if
// its writer did not ask for that.
func (m Stored) Fence() (seq uint64, ok bool) {
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.ExpectedLastSubjSeqHeader), 10, 64)
	return seq, err == nil
}

// ErrTooMany is the error of a read by subjects that match more of them, or
// more bytes, than a server reads at once.
var ErrTooMany = errors.New("too much for one read")

// Load returns the message's body, from the object store if it is there.
func (c *Conn) Load(ctx context.Context, m Stored) ([]byte, error) {
	return c.resolve(ctx, m.Header, m.Body)
}

// LastPerSubject reads the last message of every subject that a filter matches, as of
// one moment, in stream order.
func (c *Conn) LastPerSubject(ctx context.Context, filters ...string) ([]Stored, error) {
	ms, err := c.get(ctx, request{MultiLast: filters})
	slices.SortFunc(ms, func(a, b Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return ms, err
}

// ReadByScan reads every message after seq that the filter matches, in stream order.
func (c *Conn) ReadByScan(ctx context.Context, filter string, seq uint64) ([]Stored, error) {
	var all []Stored
	for m, err := range c.Scan(ctx, filter, seq) {
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
	return all, nil
}

// ScanUntil reads like Since, again and again until what it has read contains
// the message must: a follower that answers may lag behind whoever told of
// that.
func (c *Conn) ScanUntil(ctx context.Context, filter string, seq, must uint64) ([]Stored, error) {
	for {
		ms, err := c.ReadByScan(ctx, filter, seq)
		if err != nil || must <= seq || len(ms) > 0 && ms[len(ms)-1].Seq >= must {
			return ms, err
		}
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return nil, fmt.Errorf("read %s: %w", filter, err)
		}
	}
}

// Scan reads every message after seq that the filter matches, in stream order,
// a page at a time; of a filter for all partitions those of one after those of
// another. It ends with what was stored last when its last page was read, or
// after an error.
func (c *Conn) Scan(ctx context.Context, filter string, seq uint64) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for _, stream := range c.known.Load().streamsOf(filter) {
			if !c.scan(ctx, stream, filter, seq, yield) {
				return
			}
		}
	}
}

// scan reads one stream; more is false after an error, and when nobody wants
// more.
func (c *Conn) scan(
	ctx context.Context,
	stream, filter string,
	seq uint64,
	yield func(Stored, error) bool,
) (more bool) {
	for {
		page, err := c.getFrom(
			ctx,
			stream,
			request{NextFor: filter, Seq: seq + 1, Batch: 1 << 16, MaxBytes: 16 << 20},
		)
		if err != nil {
			yield(Stored{}, err)
			return false
		}
		for _, m := range page {
			if !yield(m, nil) {
				return false
			}
			seq = m.Seq
		}
		if len(page) == 0 || page[len(page)-1].Header.Get("Nats-Num-Pending") == "0" {
			return true
		}
	}
}

// ReadSince reads every message after seq that the filter matches, in stream order;
// must is one of those, as far as is known. A server that looks for the next
// message from seq on goes through what is stored there, whatever it matches:
// where must is far from seq, messages are read by their subjects.
func (c *Conn) ReadSince(ctx context.Context, filter string, seq, must uint64) ([]Stored, error) {
	if must > seq && must-seq > c.cfg.ScanLimit {
		ms, err := c.ReadBySubject(ctx, filter, seq)
		if !errors.Is(err, ErrTooMany) {
			return ms, err
		}
	}
	return c.ReadByScan(ctx, filter, seq)
}

// ReadBySubject reads every message after seq that the filter matches, in stream
// order, and the last ones of other subjects after seq. That costs what there
// is of the filter, wherever on the stream it is; the error is ErrTooMany where
// those are more subjects than a server reads at once.
//
// One read gives the last message of each subject as of one moment; what that
// hides is read for each. One whose fence says that there is none after seq
// before it hides nothing.
func (c *Conn) ReadBySubject(ctx context.Context, filter string, seq uint64, others ...string) ([]Stored, error) {
	ms, err := c.get(ctx, request{MultiLast: append([]string{filter}, others...), Seq: seq + 1})
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	var hiding, unsure []Stored
	for _, last := range ms {
		switch before, ok := last.before(); {
		case slices.Contains(others, last.Subject), ok && before <= seq:
		case ok:
			hiding = append(hiding, last)
		default:
			unsure = append(unsure, last)
		}
	}
	if len(unsure) > 0 {
		repeated, err := c.repeated(ctx, filter)
		if err != nil {
			return nil, err
		}
		hiding = append(
			hiding,
			slices.DeleteFunc(unsure, func(m Stored) bool { return !slices.Contains(repeated, m.Subject) })...)
	}
	for _, last := range hiding {
		all, err := c.ScanUntil(ctx, last.Subject, seq, last.Seq)
		if err != nil {
			return nil, err
		}
		ms = append(ms, slices.DeleteFunc(all, func(m Stored) bool { return m.Seq > last.Seq })...)
	}
	return InOrder(ms), nil
}

// InOrder sorts messages by their place in the stream; one that was read twice
// is there once.
func InOrder(ms []Stored) []Stored {
	slices.SortFunc(ms, func(a, b Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(ms, func(a, b Stored) bool { return a.Seq == b.Seq })
}

// Bounds are the first and the last sequence of a stream of runs. What was
// stored before the first has been forgotten.
type Bounds struct{ First, Last uint64 }

// Bounds are those of the streams of runs, by partition.
func (c *Conn) Bounds(ctx context.Context) (all []Bounds, err error) {
	for _, name := range c.known.Load().streams {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return nil, wrapStream(name, err)
		}
		state := s.CachedInfo().State
		all = append(all, Bounds{state.FirstSeq, state.LastSeq})
	}
	return all, nil
}

// First reads the first message of a subject; ok is false if there is none.
func (c *Conn) First(ctx context.Context, subject string) (m Stored, ok bool, err error) {
	ms, err := c.get(ctx, request{NextFor: subject, Seq: 1, Batch: 1})
	if err != nil || len(ms) == 0 {
		return Stored{}, false, err
	}
	return ms[0], true, nil
}

// repeated lists the subjects below a filter that hold more than one message.
func (c *Conn) repeated(ctx context.Context, filter string) ([]string, error) {
	stream, err := c.known.Load().streamOf(filter)
	if err != nil {
		return nil, err
	}
	info, err := ask(ctx, c, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		s, err := c.js.Stream(ctx, stream)
		if err != nil {
			return nil, err
		}
		return s.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if err != nil {
		return nil, fmt.Errorf("subjects of %s: %w", filter, err)
	}
	var out []string
	for subject, n := range info.State.Subjects {
		if n > 1 {
			out = append(out, subject)
		}
	}
	return out, nil
}

// LastSeq asks the stream's leader for the sequence of the last message that a
// filter matches, 0 if there is none. On replicas reads may lag behind it.
func (c *Conn) LastSeq(ctx context.Context, filter string) (uint64, error) {
	stream, err := c.known.Load().streamOf(filter)
	if err != nil {
		return 0, err
	}
	m, _, err := c.last(ctx, stream, filter)
	if err != nil {
		return 0, fmt.Errorf("last message of %s: %w", filter, err)
	}
	return m.Seq, nil
}

// found is a stream leader's answer to STREAM.MSG.GET.
type found struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Time    time.Time `json:"time"`
		Header  []byte    `json:"hdrs"`
	} `json:"message"`
}

// last asks a stream's leader for the last message that a filter matches,
// without its body; ok is false if there is none. (The client library's own
// request may be answered by any replica, where a stream allows direct gets.)
func (c *Conn) last(ctx context.Context, stream, filter string) (s Stored, ok bool, err error) {
	body, err := json.Marshal(map[string]string{"last_by_subj": filter})
	if err != nil {
		return s, false, err
	}
	f, err := ask(ctx, c, func(ctx context.Context) (f found, err error) {
		m, err := c.nc.RequestWithContext(ctx, c.reader.api+"STREAM.MSG.GET."+stream, body)
		if err == nil {
			err = json.Unmarshal(m.Data, &f)
		}
		if err == nil && f.Error != nil {
			err = f.Error
		}
		return f, err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	s = Stored{Subject: f.Message.Subject, Seq: f.Message.Seq, Time: f.Message.Time}
	if len(f.Message.Header) > 0 {
		s.Header, err = nats.DecodeHeadersMsg(f.Message.Header)
	}
	return s, err == nil, err
}

// Stats counts what a connection has read of the stream, apart from deliveries.
type Stats struct {
	Reads    uint64 // requests
	Messages uint64 // that they brought
}

// Stats counts since the connection was opened.
func (c *Conn) Stats() Stats { return Stats{c.reader.reads.Load(), c.reader.read.Load()} }

// request is a direct get of the server (ADR-31).
type request struct {
	Seq       uint64   `json:"seq,omitzero"`
	NextFor   string   `json:"next_by_subj,omitzero"`
	Batch     int      `json:"batch,omitzero"`
	MaxBytes  int      `json:"max_bytes,omitzero"`
	MultiLast []string `json:"multi_last,omitempty"`
}

// filter is what the request asks for.
func (r request) filter() string {
	if len(r.MultiLast) > 0 {
		return r.MultiLast[0]
	}
	return r.NextFor
}

// get asks the stream of runs that has what the request asks for.
func (c *Conn) get(ctx context.Context, r request) ([]Stored, error) {
	stream, err := c.known.Load().streamOf(r.filter())
	if err != nil {
		return nil, err
	}
	return c.getFrom(ctx, stream, r)
}

// getFrom asks until there is an answer or ctx ends: a server that restarts
// answers later.
func (c *Conn) getFrom(ctx context.Context, stream string, r request) (ms []Stored, _ error) {
	err := c.waits.retry(ctx, func() (again bool, err error) {
		ms, again, err = c.getOnce(ctx, stream, r)
		return again, err
	})
	return ms, err
}

// getOnce asks once. Again is true if there was no answer and may be one later.
func (c *Conn) getOnce(ctx context.Context, stream string, r request) (ms []Stored, again bool, err error) {
	ms, err = c.reader.get(ctx, stream, r)
	switch {
	case !errors.Is(err, errNoAnswer):
		return ms, false, err
	case c.nc.IsClosed():
		return nil, false, fmt.Errorf("read: %w", nats.ErrConnectionClosed)
	}
	return nil, true, err
}

// reader sends direct gets and collects their answers on one subscription, so
// that a read costs no subscription of its own.
type reader struct {
	nc    *nats.Conn
	waits *waits
	api   string // prefix of the JetStream API
	inbox string
	next  atomic.Uint64
	reads atomic.Uint64
	read  atomic.Uint64 // messages
	mu    sync.Mutex
	open  map[string]*answer
}

type answer struct {
	ms []Stored
	// it is to have all that was asked for
	whole bool
	err   error
	done  chan struct{}
}

// ended takes note of the message that tells that there are no more. One of
// several subjects hides what another one does not: an answer that is to be
// whole is none without the rest.
func (a *answer) ended(m *nats.Msg) {
	left, why := m.Header.Get("Nats-Num-Pending"), m.Header.Get("Description")
	switch status := m.Header.Get("Status"); {
	case status == "204" && a.whole && left != "" && left != "0": // 64 MiB were sent
		a.err = ErrTooMany
	case status == "404" && a.whole && why != "No Results": // one is removed at this moment
		a.err = errNoAnswer
	case status == "204", status == "404": // end of batch, nothing found
	case status == "413":
		a.err = ErrTooMany
	case status == "503":
		a.err = errNoAnswer
	default:
		a.err = fmt.Errorf("read: the server answered %s %s", status, why)
	}
	close(a.done)
}

// errNoAnswer says that a read may be tried again.
var errNoAnswer = errors.New("read: the server did not answer")

func newReader(nc *nats.Conn, ws *waits, api string) (*reader, error) {
	r := &reader{nc: nc, waits: ws, api: api, inbox: nc.NewInbox(), open: map[string]*answer{}}
	sub, err := nc.Subscribe(r.inbox+".*", r.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe for reads: %w", err)
	}
	return r, sub.SetPendingLimits(-1, -1)
}

func (r *reader) get(ctx context.Context, stream string, q request) ([]Stored, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	token := strconv.FormatUint(r.next.Add(1), 36)
	r.reads.Add(1)
	a := &answer{whole: len(q.MultiLast) > 0, done: make(chan struct{})}
	r.mu.Lock()
	r.open[token] = a
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.open, token)
		r.mu.Unlock()
	}()
	waiting, done := r.waits.begin(ctx)
	defer done()
	if err := r.nc.PublishRequest(r.api+"DIRECT.GET."+stream, r.inbox+"."+token, body); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	select {
	case <-a.done:
		return a.ms, a.err
	case <-waiting.Done():
	}
	if ctx.Err() == nil {
		return nil, errNoAnswer
	}
	return nil, fmt.Errorf("read: %w", context.Cause(ctx))
}

// receive is called by the client library for one message at a time.
func (r *reader) receive(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	r.mu.Lock()
	a := r.open[token]
	r.mu.Unlock()
	if a == nil {
		return
	}
	s := stored(m)
	if s.Seq != 0 {
		r.read.Add(1)
		a.ms = append(a.ms, s)
		return
	}
	r.mu.Lock()
	delete(r.open, token)
	r.mu.Unlock()
	a.ended(m)
}

// stored reads the place of a message out of the headers of a direct get or of
// a republished copy.
func stored(m *nats.Msg) Stored {
	s := Stored{Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header, Body: m.Data}
	s.Seq, _ = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	s.Time, _ = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	return s
}

// live is a watched message: stored ones carry their place, others only their
// subject.
func live(m *nats.Msg) Stored {
	s := stored(m)
	if s.Seq == 0 {
		s.Subject = m.Subject
	}
	return s
}
