package agentd

import (
	"context"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	stored "github.com/axebus/axe/internal/history"
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
	return stored.CatchUp(ctx, func(ctx context.Context) (bool, error) {
		err := w.readOnce(ctx, h, must)
		return h.state.Seq >= must, err
	}, "%s up to %d", h.run, must)
}

// oldLook is how long after a look at the reply subject the rest of a run may
// be read until somebody may have concluded it meanwhile: less than a
// connection takes that has to come back.
const oldLook = 250 * time.Millisecond

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
	ms, err := w.runs.Whole(ctx, h.run, reply)
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
	return ok && h.fresh && w.cancels.isLoaded() && !w.cancels.isCancelled(h.run)
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
	o, err := w.runs.Outcome(ctx, m)
	if err != nil {
		return err
	}
	h.state, err = h.state.Apply(o)
	return err
}

// fold applies messages that were read, in stream order.
func (w *Worker) fold(ctx context.Context, h *history, ms []bus.Stored) error {
	for _, m := range ms {
		state, e, err := w.runs.Apply(ctx, h.run, h.state, m)
		if err != nil {
			return err
		}
		if called, ok := e.(run.Called); ok && h.state.Phase == run.None {
			h.noteCall(m, called)
		}
		if h.run.Owns(m.Subject) {
			h.size += weight(len(m.Body))
		}
		h.state = state
	}
	return nil
}

// noteCall notes the header of the call and why the call cannot be run. The first
// call counts.
func (h *history) noteCall(m bus.Stored, e run.Called) {
	if m.Seq != h.call.Seq { // not parsed yet
		h.head, h.bad = subjects.ParseCall(h.run, m.Header.Get)
	}
	if h.bad == nil {
		h.bad = e.Malformed
	}
	h.call, h.called = bus.Stored{}, m.Seq
}
