package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// history is a run as this worker has read it: the fold of all its messages up
// to state.Seq.
type history struct {
	run   subjects.Run
	state run.State
	head  subjects.Header // of the call
	bad   error           // why the call cannot be run
	// the call, while nothing has been read
	call   bus.Stored
	fresh  bool   // nobody else can have had it
	called uint64 // its sequence
	// the last read looked at the reply subject too
	asked bool
	size  int // bytes of memory, for the cache
	// when the last read of the run began
	read time.Time
	// the newest tombstone known when the model was asked last
	tombs uint64

	// what a copy of its parent knows from there, once it was read
	inherited []provider.Message
}

// lagging is how long a read may lag behind a message that was delivered before
// it counts as failed.
const lagging = 10 * time.Second

// reply is the subject of the run's own outcome.
func (h *history) reply() (string, bool) {
	if h.run.Path.IsRoot() {
		return h.run.Space.Result(h.run.Agent, h.run.Tree), true
	}
	return h.head.Reply, h.bad == nil && h.head.Reply != ""
}

// read brings the history up to date: afterwards it holds the message must, and
// everything before it. A follower may lag; then it reads again. Where the call
// is all there can be, nothing is read.
func (w *Worker) read(ctx context.Context, h *history, must uint64) error {
	if w.alone(h) {
		h.asked, h.read = true, time.Now()
		if err := w.fold(ctx, h, []bus.Stored{h.call}); err != nil || h.state.Seq >= must {
			return err
		}
	}
	return catchUp(ctx, func(ctx context.Context) (bool, error) {
		err := w.readOnce(ctx, h, must)
		return h.state.Seq >= must, err
	}, "%s up to %d", h.run, must)
}

// catchUp reads until what is known to be stored is there, or for as long as a
// follower may lag. What is read is said in the error alone.
func catchUp(ctx context.Context, there func(context.Context) (bool, error), what string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lagging, errLagging)
	defer cancel()
	for {
		if ok, err := there(ctx); ok || err != nil {
			return err
		}
		if err := bus.Pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("read %s: %w", fmt.Sprintf(what, args...), err)
		}
	}
}

// oldLook is how long after a look at the reply subject the rest of a run may
// be read until somebody may have concluded it meanwhile: less than a
// connection takes that has to come back.
const oldLook = 250 * time.Millisecond

var errLagging = errors.New("the stream's replicas lag behind")

// readOnce reads what is new. The whole of an unknown run comes with its reply
// subject in one read.
func (w *Worker) readOnce(ctx context.Context, h *history, must uint64) error {
	h.asked, h.read = false, time.Now()
	if h.state.Seq > 0 {
		ms, err := w.conn.ReadSince(ctx, h.run.All(), h.state.Seq, must)
		if err != nil {
			return err
		}
		return w.fold(ctx, h, ms)
	}
	if fresh, err := w.readFresh(ctx, h); err != nil || fresh {
		return err
	}
	reply, ok := h.reply()
	looked := time.Now()
	ms, err := w.readWhole(ctx, h.run, reply)
	if err != nil {
		return err
	}
	h.asked = ok && w.conn.Replicas() <= 1 && time.Since(looked) < oldLook
	if err := w.fold(ctx, h, ms); err != nil {
		return err
	}
	for _, m := range ms {
		if ok && m.Subject == reply {
			return w.end(ctx, h, m)
		}
	}
	return nil
}

// alone reports whether a call is all that there is of its run, because nobody
// else can have had it. Only a tombstone can be there then, and all workers are
// told of one; where that is not here yet, it ends the run a moment later.
func (w *Worker) alone(h *history) bool {
	_, ok := w.firstCall(h)
	return ok && h.fresh && w.tombs.complete() && !w.tombs.covered(h.run)
}

// firstCall reports whether what is to be read is a call that is the first on
// its subject: the fence that stands in its headers says so. Where its outcome
// goes is known then.
func (w *Worker) firstCall(h *history) (reply string, ok bool) {
	reply, ok = h.reply()
	return reply, ok && h.call.Seq != 0 && h.call.FirstOnSubject() && w.conn.Replicas() <= 1
}

// readFresh asks the least that a call needs: whether the run has a log, a
// tombstone or an outcome. It has none if this is its first delivery, and then
// the call is the whole of it.
func (w *Worker) readFresh(ctx context.Context, h *history) (bool, error) {
	reply, ok := w.firstCall(h)
	if !ok {
		return false, nil
	}
	ms, err := w.conn.LastPerSubject(ctx, h.run.Log(), h.run.Cancel(), reply)
	if err != nil || len(ms) > 0 {
		return false, err
	}
	h.asked = true
	return true, w.fold(ctx, h, []bus.Stored{h.call})
}

// end folds the run's own outcome.
func (w *Worker) end(ctx context.Context, h *history, m bus.Stored) error {
	o, err := w.outcome(ctx, m)
	if err != nil {
		return err
	}
	h.state, err = h.state.Apply(run.OutcomeStored{Meta: run.Meta{Seq: m.Seq, Time: m.Time}, Outcome: o})
	return err
}

// readWhole reads a run that this worker knows nothing of. The message at
// reply, if there is one, is among what it returns.
func (w *Worker) readWhole(ctx context.Context, r subjects.Run, reply string) ([]bus.Stored, error) {
	var others []string
	if reply != "" {
		others = []string{reply}
	}
	ms, err := w.conn.ReadBySubject(ctx, r.All(), 0, others...)
	if errors.Is(err, bus.ErrTooMany) {
		return w.readInOrder(ctx, r, reply)
	}
	return ms, err
}

// readInOrder reads a run with more subjects than one read covers. It scans the
// stream from the call on, which is slow on an old run and exact on any. Of
// what was stored before the call a tombstone counts.
func (w *Worker) readInOrder(ctx context.Context, r subjects.Run, reply string) ([]bus.Stored, error) {
	call, ok, err := w.conn.First(ctx, r.Call())
	if err != nil || !ok {
		return nil, err
	}
	var ms []bus.Stored
	for _, subject := range []string{reply, r.Cancel()} {
		if subject == "" {
			continue
		}
		first, ok, err := w.conn.First(ctx, subject)
		if err != nil {
			return nil, err
		}
		if ok {
			ms = append(ms, first)
		}
	}
	all, err := w.conn.ReadByScan(ctx, r.All(), call.Seq-1)
	return bus.InOrder(append(ms, all...)), err
}

// fold applies messages that were read, in stream order.
func (w *Worker) fold(ctx context.Context, h *history, ms []bus.Stored) error {
	own := strings.TrimSuffix(h.run.All(), ">")
	for _, m := range ms {
		e, err := w.event(ctx, h, m)
		if err != nil {
			return err
		}
		if e == nil && !strings.HasPrefix(m.Subject, own) {
			continue
		}
		h.size += weight(len(m.Body))
		if e != nil {
			if h.state, err = h.state.Apply(e); err != nil {
				return fmt.Errorf("run %s: %w", h.run, err)
			}
		}
		h.state.Seq = max(h.state.Seq, m.Seq)
	}
	return nil
}

// event makes an event of a message. What nobody here writes is nil: it is read
// and ignored. A malformed body becomes a failed outcome or an empty reason,
// the same on every worker.
func (w *Worker) event(ctx context.Context, h *history, m bus.Stored) (run.Event, error) {
	at, err := h.run.Space.Parse(m.Subject)
	if err != nil || at.Run != h.run {
		return nil, nil //nolint:nilerr // late, duplicate, unknown: no-op (rule 7)
	}
	meta := run.Meta{Seq: m.Seq, Time: m.Time}
	switch at.Kind {
	case subjects.Call:
		return w.called(ctx, h, m, meta)
	case subjects.Log:
		return w.logged(ctx, m, meta)
	case subjects.Reply:
		o, err := w.outcome(ctx, m)
		return run.Replied{Meta: meta, Turn: at.Turn, Index: at.Index, Outcome: o}, err
	case subjects.Mail:
		return w.mailed(ctx, m, at.Key, meta)
	case subjects.Interrupt:
		return run.Interrupted{Meta: meta}, nil
	case subjects.Approve:
		return w.approved(ctx, m, meta)
	case subjects.Timer:
		return run.TimedOut{Meta: meta, Turn: at.Turn}, nil
	case subjects.Cancel:
		return run.Cancelled{Meta: meta, End: endOf(m.Body)}, nil
	case subjects.Submission, subjects.Other, subjects.Result, subjects.Progress:
		return nil, nil
	}
	return nil, nil
}

func (w *Worker) called(ctx context.Context, h *history, m bus.Stored, meta run.Meta) (run.Event, error) {
	if h.state.Phase != run.None {
		return nil, nil // called already: the first call counts
	}
	if m.Seq != h.call.Seq { // not parsed yet
		h.head, h.bad = subjects.ParseCall(h.run, m.Header.Get)
	}
	h.call, h.called = bus.Stored{}, m.Seq
	e := run.Called{Meta: meta}
	body, err := w.load(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &e.Input); err != nil && h.bad == nil {
		h.bad = fmt.Errorf("body of the call: %w", err)
	}
	return e, nil
}

func (w *Worker) logged(ctx context.Context, m bus.Stored, meta run.Meta) (run.Event, error) {
	body, err := w.load(ctx, m)
	if err != nil {
		return nil, err
	}
	entry, err := run.DecodeEntry(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", run.ErrCorrupt, err)
	}
	return entry.Event(meta), nil
}

func (w *Worker) outcome(ctx context.Context, m bus.Stored) (run.Outcome, error) {
	body, err := w.load(ctx, m)
	if err != nil {
		return run.Outcome{}, err
	}
	o, err := run.DecodeOutcome(body)
	if err != nil {
		return run.Failure(run.KindError, "malformed %v", err), nil
	}
	return o, nil
}

// load is the body of a message. One whose object is gone or too large is empty
// for every worker.
func (w *Worker) load(ctx context.Context, m bus.Stored) ([]byte, error) {
	body, err := w.conn.Load(ctx, m)
	if errors.Is(err, bus.ErrObjectGone) || errors.Is(err, bus.ErrTooLarge) {
		return nil, nil
	}
	return body, err
}

// endOf reads the reason in a cancel message. Anybody may cancel with an empty
// body.
func endOf(body []byte) run.End {
	var e run.End
	if json.Unmarshal(body, &e) != nil {
		e = run.End{}
	}
	if e.Kind != run.KindPoisoned && e.Kind != run.KindTimeout && e.Kind != run.KindBudget {
		e.Kind = run.KindCancelled
	}
	if e.Text == "" {
		e.Text = string(e.Kind)
	}
	return e
}
