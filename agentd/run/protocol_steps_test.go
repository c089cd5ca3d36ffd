package run_test

import (
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// op is who moves.
type op byte

const (
	deliver   op = iota // message arg to worker who
	move                // worker who takes its next step, in its arg-th way
	learn               // worker who hears of tombstone arg
	crash               // worker who dies
	ackWait             // the AckWait of message arg runs out
	forget              // the server has restarted and forgotten the consumer state of message arg
	cancelled           // somebody cancels scenario.cancelAt
	fire                // timer arg fires
)

// step is one thing that may happen.
type step struct {
	op       op
	who, arg int
}

// fault reports whether a step is one that a random walk should take rarely.
func (s step) fault() bool { return s.op == crash || s.op == ackWait || s.op == forget }

// steps lists everything that may happen next.
func (w *world) steps() []step {
	var out []step
	seen := map[uint64]bool{} // idle workers that know the same are the same
	for i := range w.workers {
		h := &w.workers[i]
		if next := w.unheard(h); next >= 0 {
			out = append(out, step{learn, i, next})
		}
		if h.busy {
			for way := range w.ways(h) {
				out = append(out, step{move, i, way})
			}
			if w.budget.crash > 0 && (h.at != atRead || h.turned) {
				out = append(out, step{crash, i, 0})
			}
			continue
		}
		if seen[h.known] {
			continue
		}
		seen[h.known] = true
		for k, c := range w.cons {
			if c.due {
				out = append(out, step{deliver, i, k})
			}
		}
	}
	return append(out, w.environment()...)
}

// unheard is the first tombstone that a worker does not know, -1 if it knows all.
func (w *world) unheard(h *handler) int {
	for i := range w.tombs {
		if h.known&(1<<i) == 0 {
			return i
		}
	}
	return -1
}

// ways is in how many ways a worker's next step may go.
func (w *world) ways(h *handler) int {
	switch h.at {
	case atRead:
		return max(1, len(w.views(h)))
	case atReply:
		return 1
	case atAsk:
		if !h.slot && w.stream[h.trig].kind != call {
			return 2 // with a free slot, or after waiting for one
		}
		return 1
	case atAnswer:
		n := len(w.script(h.path(w), len(h.state.Turns)+1, h.count > 1))
		if w.late(h.path(w)) {
			n++ // the deadline aborts the request
		}
		return n
	case atOutcome:
		if w.lose > 0 {
			return 3
		}
	case atSelf:
		if w.lose > 0 {
			return 2
		}
	case atCommit, atWrite, atAck:
	}
	return 1
}

func (w *world) environment() []step {
	var out []step
	for k, c := range w.cons {
		if !w.stream[k].triggers() || c.count == 0 {
			continue
		}
		if w.redel > 0 && !c.acked && !c.due {
			out = append(out, step{ackWait, 0, k})
		}
		if w.budget.forget > 0 && !c.due && w.stream[k].kind != submission {
			out = append(out, step{forget, 0, k})
		}
	}
	if w.cancel > 0 && w.has(call, w.cancelAt) && !w.has(tombstone, w.cancelAt) {
		out = append(out, step{cancelled, 0, 0})
	}
	if w.budget.fire > 0 {
		for i := range w.armed {
			out = append(out, step{fire, 0, i})
		}
	}
	return out
}

func (w *world) arm(t timer) {
	if !slices.Contains(w.armed, t) {
		w.armed = append(w.armed, t)
	}
}

// do takes a step.
func (w *world) do(s step) {
	h := &w.workers[s.who]
	switch s.op {
	case deliver:
		w.deliver(h, s.arg)
		w.tell("worker %d gets #%d %v, delivery %d", s.who, s.arg+1, w.stream[s.arg], h.count)
	case move:
		was, trig := h.at, h.seq()
		w.move(h, s.arg)
		w.tell("worker %d (#%d) %s, way %d: next %s", s.who, trig, ats[was], s.arg, ats[h.at])
	case learn:
		w.learn(h, s.arg)
		w.tell("worker %d hears of the tombstone of %s", s.who, w.tombs[s.arg])
	case crash:
		w.tell("worker %d (#%d) dies before %s", s.who, h.seq(), ats[h.at])
		w.budget.crash--
		w.faulty = true
		w.giveBack(h)
	case ackWait:
		w.tell("AckWait of #%d runs out", s.arg+1)
		w.redel--
		w.faulty, w.cons[s.arg].due = true, true
	case forget:
		w.tell("the server restarts and forgets #%d", s.arg+1)
		w.budget.forget--
		w.faulty, w.cons[s.arg] = true, consumer{due: true, total: w.cons[s.arg].total}
	case cancelled:
		w.cancel--
		w.publish(msg{kind: tombstone, path: w.cancelAt, end: run.End{Kind: run.KindCancelled, Text: "cancelled"}})
		w.tell("#%d somebody cancels %s", len(w.stream), w.cancelAt)
	case fire:
		w.budget.fire--
		w.publish(msg{kind: fired, path: w.armed[s.arg].path, turn: w.armed[s.arg].turn})
		w.tell("#%d a timer fires: %v", len(w.stream), w.stream[len(w.stream)-1])
	}
}

func (w *world) tell(format string, args ...any) {
	if w.tracing {
		w.happened = fmt.Sprintf(format, args...)
	}
}

func (w *world) deliver(h *handler, k int) {
	c := &w.cons[k]
	c.due = false
	c.count++
	c.total++
	*h = handler{busy: true, known: h.known, trig: k, count: c.count, n: c.total, stored: len(w.stream), must: uint64(k + 1)}
	m := w.stream[k]
	h.slot = m.kind == call
	if (c.count > 1 || m.kind == call) && !w.noLeader {
		if own := w.own(m.path); len(own) > 0 {
			h.must = own[len(own)-1]
		}
	}
	if m.kind == submission {
		h.writes = []msg{{kind: call, path: subjects.Root}, {kind: fired, path: subjects.Root}}
		h.goTo(atWrite)
	}
}

// learn aborts a request in flight.
func (w *world) learn(h *handler, tomb int) {
	h.known |= 1 << tomb
	if h.busy && h.at == atAnswer && !w.noTombs && w.tombs[tomb].Covers(h.path(w)) {
		h.readAgain(h.state.Seq)
	}
}

func (w *world) move(h *handler, way int) {
	switch h.at {
	case atRead:
		if w.ackFirst {
			w.cons[h.trig].acked, w.cons[h.trig].due = true, false
		}
		views := w.views(h)
		if len(views) == 0 {
			h.goTo(atAck)
			return
		}
		w.read(h, views[len(views)-1-way])
	case atReply:
		w.derive(h)
	case atAsk:
		if way == 1 {
			h.slot = true
			h.readAgain(h.state.Seq)
			return
		}
		w.ask(h)
	case atAnswer:
		answers := w.script(h.path(w), len(h.state.Turns)+1, h.count > 1)
		if way == len(answers) {
			h.readAgain(h.state.Seq)
			return
		}
		w.answered(h, answers[way])
	case atCommit:
		w.commit(h)
	case atWrite:
		w.write(h)
	case atOutcome:
		w.moveOutcome(h, way)
	case atSelf:
		w.cancelSelf(h)
		if way == 1 && h.at == atAck { // the acknowledgement is lost, the retry refused
			w.lose--
			w.faulty = true
			h.readAgain(w.last(tombstone, h.path(w)))
		}
	case atAck:
		w.cons[h.trig].acked, w.cons[h.trig].due = true, false
		*h = handler{known: h.known}
	}
}

// moveOutcome publishes the outcome. If the acknowledgement is lost, the retry is stored as well (the
// server does not remember the message id any more), or the trigger goes back.
func (w *world) moveOutcome(h *handler, way int) {
	stored := w.publishOutcome(h)
	if way == 0 || !stored {
		return
	}
	w.lose--
	w.faulty = true
	if way == 1 {
		w.publishOutcome(h)
		return
	}
	w.giveBack(h)
}
