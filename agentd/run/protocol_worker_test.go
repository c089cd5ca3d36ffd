package run_test

import (
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// at is the next step of a handler. A worker may die before any step.
type at byte

const (
	// read the run's messages, and see whether the run owes the holder of
	// the trigger anything
	atRead at = iota
	// read the reply subject, and derive the effects that are owed
	atReply
	atAsk    // send the request to the model
	atAnswer // the model answers
	atCommit // append to the log
	// calls, timers and cancel messages, one by one
	atWrite
	atOutcome // publish the outcome
	atSelf    // write the run's own cancel message
	atAck
)

var ats = [...]string{"read", "reply", "ask", "answer", "commit", "write", "outcome", "self", "ack"}

// handler is a worker that handles a trigger, as agentd's execution does.
type handler struct {
	busy bool
	// cancel messages that this worker knows, a bit for each in stream
	// order
	known uint64

	trig   int // index in the stream
	count  int // deliveries as the server counts them
	n      int // deliveries in fact
	at     at
	stored int // length of the stream at delivery
	// sequence that the next read has to contain
	must  uint64
	state run.State
	slot  bool // has a slot for the request to the model
	// it has gone back to atRead once at least
	turned bool
	// the last read covered the reply subject too
	replyRead bool
	answer    answer
	// messages to store at atWrite; one of the kind fired is a timer to set
	writes []msg
	end    run.End
	out    run.Outcome
	// gives the trigger back after a refused outcome
	desist  bool
	logEnds bool // atCommit appends the end
}

// path is the path of the run that the handler moves.
func (h *handler) path(w *world) subjects.Path { return w.stream[h.trig].path }

// seq is the sequence of the trigger.
func (h *handler) seq() uint64 { return uint64(h.trig + 1) }

func (h *handler) goTo(a at) { h.at = a }

// readAgain makes the next step a read at least up to must.
func (h *handler) readAgain(must uint64) { h.at, h.must, h.turned = atRead, max(must, h.must), true }

// expired reports whether the trigger is the firing of the run's own timer.
func (h *handler) expired(w *world) bool {
	m := w.stream[h.trig]
	return m.kind == fired && m.turn == 0
}

// views lists the sequences up to which a read may show the run. Followers may
// lag.
func (w *world) views(h *handler) []uint64 {
	own := w.own(h.path(w))
	if !w.lag || w.stream[h.trig].kind == submission {
		return own[max(0, len(own)-1):]
	}
	for len(own) > 1 && own[0] < max(h.must, h.state.Seq) {
		own = own[1:]
	}
	return own
}

// owes is execution.owes of agentd. A turn's timer never fires too early here,
// so its firing owns the effects that it makes owed.
func (w *world) owes(h *handler) bool {
	if h.state.OutcomeStored || h.state.Phase == run.None {
		return false
	}
	return (h.state.Owner == h.seq() || h.expired(w) || w.anyOwner) && len(h.state.Outstanding().All()) > 0
}

// read brings the state up to date and looks at its owner. The first read of a
// run covers the reply subject too, unless there are replicas, which may lag.
func (w *world) read(h *handler, upTo uint64) {
	h.replyRead = h.state.Seq == 0 && !w.lag
	h.state = w.fold(h.state, h.path(w), upTo)
	if h.replyRead {
		w.conclude(h)
	}
	h.goTo(atAck)
	if w.owes(h) {
		h.goTo(atReply)
	}
}

// isCancelled reports whether the worker knows a cancel message of the run or
// of a run above it.
func (w *world) isCancelled(h *handler, p subjects.Path) bool {
	for i, q := range w.cancels {
		if h.known&(1<<i) != 0 && q.Covers(p) {
			return true
		}
	}
	return false
}

// mustFail is execution.mustFail of agentd.
func (w *world) mustFail(h *handler) (run.End, bool) {
	switch {
	case w.isCancelled(h, h.path(w)) && !w.noCancels:
		return run.End{Kind: run.KindCancelled, Text: "cancelled"}, true
	case h.expired(w) || w.late(h.path(w)):
		return run.End{Kind: run.KindTimeout, Text: "timeout"}, true
	case w.poisoned(h):
		return run.End{Kind: run.KindPoisoned, Text: "poisoned"}, true
	}
	return run.End{}, false
}

// poisoned is loadedRun.isPoisoned of agentd.
func (w *world) poisoned(h *handler) bool {
	if w.poison == 0 || h.state.Returns.Of(h.seq()).Counted(h.count, (w.poison+1)/2) <= w.poison {
		return false
	}
	w.checkPoisoned(h)
	return true
}

// conclude reads the reply subject and folds an outcome there.
func (w *world) conclude(h *handler) {
	if o, ok := w.outcome(h.path(w), len(w.stream)); ok && !w.noReply {
		h.state, _ = h.state.Apply(run.OutcomeStored{Outcome: o})
	}
}

// derive reads the reply subject and chooses the next step, as execution.act
// and step of agentd do.
func (w *world) derive(h *handler) {
	p := h.path(w)
	if !h.replyRead {
		w.conclude(h)
	}
	if h.state.OutcomeStored {
		h.goTo(atAck)
		return
	}
	if h.state.Ended() && w.poisoned(h) {
		h.out, h.desist = run.Failure(run.KindPoisoned, "given up"), true
		h.state.LogSeq = w.last(logged, p)
		h.goTo(atOutcome)
		return
	}
	if !h.state.Ended() {
		if end, failed := w.mustFail(h); failed {
			h.end = end
			h.goTo(atSelf)
			return
		}
	}
	h.writes, h.logEnds = nil, false
	for _, e := range h.state.Outstanding().All() {
		switch e := e.(type) {
		case run.CallModel:
			h.goTo(atAsk)
		case run.CallChildren:
			for _, c := range e.Children {
				h.writes = append(h.writes, msg{kind: call, path: p.Child(e.Turn, c.Index)})
			}
			h.writes = append(h.writes, msg{kind: fired, path: p, turn: e.Turn})
			h.goTo(atWrite)
		case run.CancelBelow:
			for _, c := range e.Below {
				h.writes = append(h.writes, msg{
					kind: cancelMessage, path: p.Child(c.Turn, c.Index),
					end: run.End{Kind: run.KindCancelled, Text: "above"},
				})
			}
			h.goTo(atWrite)
		case run.LogEnd:
			h.end, h.logEnds = e.End, true
			if len(h.writes) == 0 {
				h.goTo(atCommit)
			}
		case run.CallTool, run.NotifyIdle, run.PublishAnswer, run.StopBelow, run.LogInterrupt, run.HoldTurn,
			run.HoldTool, run.AwaitTask, run.CancelTask, run.PublishSettled:
			// No run of these scenarios calls a tool, forks, is
			// supervised or interrupted.
		case run.PublishFailure:
			h.out = run.Failure(e.End.Kind, "%s", e.End.Text)
			h.goTo(atOutcome)
		}
	}
}

// ask sends the request. If the worker knows a cancel message by now, the run
// ends instead.
func (w *world) ask(h *handler) {
	if w.isCancelled(h, h.path(w)) && !w.noCancels {
		h.readAgain(h.state.Seq)
		return
	}
	w.checkAsk(h)
	w.asks = append(w.asks, asked{h.path(w), len(h.state.Turns) + 1, h.trig, h.n})
	h.goTo(atAnswer)
}

// answered takes the model's answer.
func (w *world) answered(h *handler, a answer) {
	h.answer = a
	if a.calls > 0 {
		h.goTo(atCommit)
		return
	}
	h.out = run.Outcome{Status: run.StatusCompleted, Result: fmt.Sprintf("%s#%d.%d", h.path(w), h.trig, h.n)}
	if a.broken {
		h.out = run.Failure(run.KindError, "%s#%d.%d", h.path(w), h.trig, h.n)
	}
	h.goTo(atOutcome)
}
