package run_test

import (
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// at is the next step of a handler. A worker may die before each step but its
// first read. The world is the same after a death there and after that read.
type at byte

const (
	// atRead: the worker reads the run's messages. It goes on if the run owes
	// the holder of the trigger an effect.
	atRead at = iota
	// atReply: the worker reads the reply subject, and derives the owed
	// effects.
	atReply
	// atAsk: the worker sends the request to the model.
	atAsk
	// atAnswer: the model answers.
	atAnswer
	// atCommit: the worker appends to the log.
	atCommit
	// atWrite: the worker writes the next one of its calls, timers and cancel
	// messages.
	atWrite
	// atOutcome: the worker publishes the outcome.
	atOutcome
	// atCancelSelf: the worker writes the run's own cancel message.
	atCancelSelf
	// atAck: the worker acknowledges the trigger.
	atAck
)

// stepNames are the names of the steps in a trace.
var stepNames = [...]string{"read", "reply", "ask", "answer", "commit", "write", "outcome", "self", "ack"}

// handler is a worker. While it is busy it handles one trigger, as execution of
// agentd does.
type handler struct {
	busy bool
	// known has a bit for each cancel message that the worker knows, in stream
	// order.
	known uint64

	// trig is the index of the trigger in the stream.
	trig int
	// count is the number of the delivery as the server counts. A server that
	// has forgotten its consumers counts from 1 again.
	count int
	// n is the number of the delivery in fact.
	n  int
	at at
	// stored is the length of the stream at the delivery.
	stored int
	// minSeq is the sequence that the next read has to contain.
	minSeq uint64
	state  run.State
	// slot says that the worker has a slot for the request to the model.
	slot bool
	// rereads says that the handler has gone back to atRead.
	rereads bool
	// replyRead says that the last read covered the reply subject too.
	replyRead bool
	answer    answer
	// writes are the messages to store at atWrite. One of the kind fired is a
	// timer to set.
	writes []msg
	// end is the reason for which the run fails.
	end run.End
	// out is the outcome to publish at atOutcome.
	out run.Outcome
	// givesBack says that the worker gives the trigger back if the outcome is
	// refused.
	givesBack bool
	// logEnds says that atCommit appends the end of the run.
	logEnds bool
}

// path is the path of the run that the handler moves.
func (h *handler) path(w *world) subjects.Path { return w.stream[h.trig].path }

// seq is the sequence of the trigger.
func (h *handler) seq() uint64 { return uint64(h.trig + 1) }

func (h *handler) goTo(a at) { h.at = a }

// readAgain makes the next step a read that contains minSeq.
func (h *handler) readAgain(minSeq uint64) {
	h.goTo(atRead)
	h.minSeq = max(minSeq, h.minSeq)
	h.rereads = true
}

// expired reports whether the trigger is the firing of the run's own timer.
func (h *handler) expired(w *world) bool {
	m := w.stream[h.trig]
	return m.kind == fired && m.turn == 0
}

// views lists the sequences up to which a read may show the run, in stream
// order. A read of the leader shows all of them. A follower may lag, but not
// behind minSeq.
func (w *world) views(h *handler) []uint64 {
	own := w.own(h.path(w))
	if !w.lag {
		return own[max(0, len(own)-1):]
	}
	for len(own) > 1 && own[0] < max(h.minSeq, h.state.Seq) {
		own = own[1:]
	}
	return own
}

// owes stands for execution.owes of agentd. No timer of a turn fires too early
// here. So its firing is the owner of the effects that it makes owed.
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

// conclude folds the run's outcome, if one is at the reply subject.
func (w *world) conclude(h *handler) {
	if o, ok := w.outcome(h.path(w), len(w.stream)); ok && !w.noReply {
		h.state, _ = h.state.Apply(run.OutcomeStored{Outcome: o})
	}
}

// derive chooses the next step, as execution.act and execution.step of agentd
// do. It reads the reply subject first, unless the last read covered it.
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
		h.out, h.givesBack = run.Failure(run.KindPoisoned, "given up"), true
		// failUnread of agentd fences by the present end of the log too.
		h.state.LogSeq = w.last(logged, p)
		h.goTo(atOutcome)
		return
	}
	if !h.state.Ended() {
		if end, failed := w.mustFail(h); failed {
			h.end = end
			h.goTo(atCancelSelf)
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
			w.violate("run %s owes %T, which no scenario has", p, e)
		case run.PublishFailure:
			h.out = run.Failure(e.End.Kind, "%s", e.End.Text)
			h.goTo(atOutcome)
		}
	}
}

// ask sends the request. If the worker knows a cancel message by now, it reads
// the run again, and the run ends.
func (w *world) ask(h *handler) {
	if w.isCancelled(h, h.path(w)) && !w.noCancels {
		h.readAgain(h.state.Seq)
		return
	}
	w.checkAsk(h)
	w.asks = append(w.asks, asked{h.path(w), len(h.state.Turns) + 1, h.trig, h.n})
	h.goTo(atAnswer)
}

// takeAnswer takes the model's answer.
func (w *world) takeAnswer(h *handler, a answer) {
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
