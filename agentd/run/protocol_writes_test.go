package run_test

import (
	"slices"

	"github.com/axebus/axe/agentd/run"
)

// commit appends a turn or the end to the log, fenced by the last read.
func (w *world) commit(h *handler) {
	p := h.path(w)
	if last := w.last(logged, p); last != h.state.LogSeq && !w.noFence {
		w.refused(h, last)
		return
	}
	m := msg{kind: logged, path: p, by: h.trig<<8 | h.n, answer: h.answer, saw: conversation(h.state.Turns)}
	m.entry = run.Entry{
		Index:   h.state.LogIndex + 1,
		Kind:    run.EntryEnded,
		Trigger: h.seq(),
		Seen:    h.state.Seq,
		End:     &h.end,
	}
	if !h.logEnds {
		m.entry.Kind, m.entry.End = run.EntryTurn, nil
		h.answer.fill(&m.entry)
	} else {
		m.answer = answer{calls: -1}
	}
	h.readAgain(w.publish(m))
	w.now(p) // checks the log
}

// refused follows a write that was refused. The handler reads the message that
// won, or gives the trigger back.
func (w *world) refused(h *handler, last uint64) {
	switch {
	case h.givesBack:
		w.giveBack(h)
	case w.noReread:
		h.goTo(atAck)
	default:
		h.readAgain(last)
	}
}

// write carries out the next of the handler's writes: it sets a timer, or
// stores a message unless its subject has one already.
func (w *world) write(h *handler) {
	m := h.writes[0]
	h.writes = h.writes[1:]
	m.by = h.trig<<8 | h.n
	switch {
	case m.kind == fired:
		w.arm(timer{m.path, m.turn})
	case !w.has(m.kind, m.path):
		if m.kind == call {
			w.checkCall(h.path(w), m.path)
		}
		w.publish(m)
	}
	switch {
	case len(h.writes) > 0:
	case h.logEnds:
		h.goTo(atCommit)
	default:
		h.goTo(atAck)
	}
}

// publishOutcome stores an outcome, fenced by the run's log.
func (w *world) publishOutcome(h *handler) (stored bool) {
	p := h.path(w)
	if last := w.last(logged, p); last != h.state.LogSeq && !w.noFence {
		w.refused(h, last)
		return false
	}
	w.checkOutcome(h)
	parent, turn, index, _ := p.Parent()
	w.publish(msg{kind: reply, path: parent, turn: turn, index: index, outcome: h.out, by: h.trig<<8 | h.n})
	h.goTo(atAck)
	return true
}

// cancelSelf writes the run's own cancel message. Its delivery does the rest.
func (w *world) cancelSelf(h *handler) {
	p := h.path(w)
	if last := w.last(cancelMessage, p); last > 0 {
		w.refused(h, last)
		return
	}
	w.publish(msg{kind: cancelMessage, path: p, end: h.end, by: h.trig<<8 | h.n})
	h.known |= 1 << (len(w.cancels) - 1)
	h.goTo(atAck)
}

// drained stores the return of a delivery, if it is not there, and gives the
// trigger back. A submission has no run, so it has no return.
func (w *world) drained(h *handler) {
	m := msg{kind: returned, path: h.path(w), turn: h.count, index: h.trig}
	if w.stream[h.trig].kind != submission && !slices.ContainsFunc(w.stream, m.same) {
		w.publish(m)
	}
	w.giveBack(h)
}

// same reports whether two returns are of one delivery.
func (m msg) same(n msg) bool { return n.kind == returned && n.turn == m.turn && n.index == m.index }

// giveBack returns the trigger to the server.
func (w *world) giveBack(h *handler) {
	if c := &w.cons[h.trig]; !c.acked {
		c.due = true
	}
	*h = handler{known: h.known}
}
