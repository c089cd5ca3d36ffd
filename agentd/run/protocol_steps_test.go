package run_test

import (
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
)

// op is the kind of a step.
type op byte

const (
	deliver op = iota // message arg goes to a worker
	// a worker takes its next step, in its arg-th way
	move
	learn // a worker gets cancel message arg
	crash // a worker dies
	drain // a worker gives its trigger back, and says so first
	// the lease of message arg ends
	ackWait
	// the server has restarted and forgotten the consumer state of message
	// arg
	forget
	cancelled // a client cancels scenario.cancelAt
	fire      // timer arg fires
)

// step is one thing that may happen.
type step struct {
	op          op
	worker, arg int
}

// fault reports whether a random walk should take the step rarely.
func (s step) fault() bool {
	return s.op == crash || s.op == drain || s.op == ackWait || s.op == forget
}

// steps lists everything that may happen next.
func (w *world) steps() []step {
	var out []step
	// two idle workers that know the same are interchangeable
	seen := map[uint64]bool{}
	for i := range w.workers {
		h := &w.workers[i]
		if next := w.unheard(h); next >= 0 {
			out = append(out, step{learn, i, next})
		}
		if h.busy {
			for way := range w.ways(h) {
				out = append(out, step{move, i, way})
			}
			if w.crash > 0 && (h.at != atRead || h.rereads) {
				out = append(out, step{crash, i, 0})
			}
			if w.drain > 0 {
				out = append(out, step{drain, i, 0})
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

// unheard returns the first cancel message that a worker does not know, -1 if
// it knows all.
func (w *world) unheard(h *handler) int {
	for i := range w.cancels {
		if h.known&(1<<i) == 0 {
			return i
		}
	}
	return -1
}

// ways returns the number of ways in which a worker's next step may go.
func (w *world) ways(h *handler) int {
	switch h.at {
	case atRead:
		return max(1, len(w.views(h)))
	case atReply:
		return 1
	case atAsk:
		if !h.slot && w.stream[h.trig].kind != call {
			// with a free slot, or after waiting for one
			return 2
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
	case atCancelSelf:
		if w.lose > 0 {
			return 2
		}
	case atCommit, atWrite, atAck:
	}
	return 1
}

// environment lists the steps of the server, of the timers and of the person
// that cancels.
func (w *world) environment() []step {
	var out []step
	for k, c := range w.cons {
		if !w.stream[k].triggers() || c.count == 0 {
			continue
		}
		if w.redel > 0 && !c.acked && !c.due {
			out = append(out, step{ackWait, 0, k})
		}
		if w.forget > 0 && !c.due && w.stream[k].kind != submission {
			out = append(out, step{forget, 0, k})
		}
	}
	if w.cancel > 0 && w.has(call, w.cancelAt) && !w.has(cancelMessage, w.cancelAt) {
		out = append(out, step{cancelled, 0, 0})
	}
	if w.fire > 0 {
		for i := range w.armed {
			out = append(out, step{fire, 0, i})
		}
	}
	return out
}

// arm sets a timer. A second timer of the same turn changes nothing.
func (w *world) arm(t timer) {
	if !slices.Contains(w.armed, t) {
		w.armed = append(w.armed, t)
	}
}

// do takes a step.
func (w *world) do(s step) {
	h := &w.workers[s.worker]
	switch s.op {
	case deliver:
		w.deliver(h, s.arg)
		w.trace("worker %d gets #%d %v, delivery %d", s.worker, s.arg+1, w.stream[s.arg], h.count)
	case move:
		was, trig := h.at, h.seq()
		w.move(h, s.arg)
		w.trace("worker %d (#%d) %s, way %d: next %s", s.worker, trig, stepNames[was], s.arg, stepNames[h.at])
	case learn:
		w.learn(h, s.arg)
		w.trace("worker %d gets the cancel message of %s", s.worker, w.cancels[s.arg])
	case crash:
		w.trace("worker %d (#%d) dies before %s", s.worker, h.seq(), stepNames[h.at])
		w.crash--
		w.faulty = true
		w.giveBack(h)
	case drain:
		w.trace("worker %d (#%d) drains before %s", s.worker, h.seq(), stepNames[h.at])
		w.drain--
		w.faulty = true
		w.drained(h)
	case ackWait:
		w.trace("AckWait of #%d runs out", s.arg+1)
		w.redel--
		w.faulty, w.cons[s.arg].due = true, true
	case forget:
		w.trace("the server restarts and forgets #%d", s.arg+1)
		w.forget--
		w.faulty, w.cons[s.arg] = true, consumer{due: true, total: w.cons[s.arg].total}
	case cancelled:
		w.cancel--
		w.publish(msg{kind: cancelMessage, path: w.cancelAt, end: run.End{Kind: run.KindCancelled, Text: "cancelled"}})
		w.trace("#%d a person cancels %s", len(w.stream), w.cancelAt)
	case fire:
		w.fire--
		w.publish(msg{kind: fired, path: w.armed[s.arg].path, turn: w.armed[s.arg].turn})
		w.trace("#%d a timer fires: %v", len(w.stream), w.stream[len(w.stream)-1])
	}
}

// trace keeps a description of the step that was taken, for explain.
func (w *world) trace(format string, args ...any) {
	if w.tracing {
		w.happened = fmt.Sprintf(format, args...)
	}
}
