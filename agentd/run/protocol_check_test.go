package run_test

import (
	"fmt"
	"reflect"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// The violations, by letter:
//
//	A  a run that was called never ends
//	B  an outcome contradicts the log, or is not the first of its call
//	C  the model is asked for a turn that was stored before the delivery
//	D  the model is asked for a turn under two triggers, twice without a
//	   fault, or twice by one delivery
//	E  the fold differs from the conversation that the model saw, or is corrupt
//	F  a child is called after its parent's end, and no cancel message or
//	   deadline covers it
//	G  the model is asked by a worker that knows the cancel message, or in a
//	   state that does not owe it
//	H  a trigger is poisoned by deliveries that have returns

// violate keeps the first violation. Its text begins with the letter.
func (w *world) violate(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

// checkAsk checks the world before the model is asked.
func (w *world) checkAsk(h *handler) {
	p, turn := h.path(w), len(h.state.Turns)+1
	if w.isCancelled(h, p) {
		w.violate("G the model is asked for %s after its worker saw the cancel message", p)
	}
	if h.state.Phase != run.Ready {
		w.violate("G the model is asked for %s in %v", p, h.state.Phase)
	}
	if w.turnStored(p, turn, h.stored) {
		w.violate(
			"C turn %d of %s is asked again although it was stored before this delivery of #%d",
			turn,
			p,
			h.seq(),
		)
	}
	for _, a := range w.asks {
		if a.path != p || a.turn != turn {
			continue
		}
		switch {
		case a.trig != h.trig:
			w.violate("D turn %d of %s is asked under two triggers, #%d and #%d", turn, p, a.trig+1, h.seq())
		case !w.faulty:
			w.violate("D turn %d of %s is asked twice without a fault", turn, p)
		case a.n == h.n:
			w.violate("D turn %d of %s is asked twice by one delivery of #%d", turn, p, h.seq())
		}
	}
}

// turnStored reports whether a turn's answer is among the first n messages: on
// the log, or as the outcome of the run.
func (w *world) turnStored(p subjects.Path, turn, n int) bool {
	turns := 0
	for _, m := range w.stream[:n] {
		if m.kind == logged && m.path == p && m.entry.Kind == run.EntryTurn {
			turns++
		}
	}
	o, ok := w.outcome(p, n)
	return turns >= turn || ok && answered(o)
}

// answered reports whether an outcome is the model's answer, and not an end
// from outside.
func answered(o run.Outcome) bool { return o.Status == run.StatusCompleted || o.Kind == run.KindError }

// checkPoisoned checks the world before a run ends as poisoned. Only the
// returns count that the worker has read: a zombie may store one later.
func (w *world) checkPoisoned(h *handler) {
	silent := w.cons[h.trig].total - 1
	for _, m := range w.stream[:h.state.Seq] {
		if m.kind == returned && m.index == h.trig {
			silent--
		}
	}
	if silent < w.poison {
		w.violate("H #%d is poisoned after %d deliveries without a return, want %d", h.seq(), silent, w.poison)
	}
}

// checkCall checks the world before a child is called.
func (w *world) checkCall(parent, child subjects.Path) {
	for _, t := range w.cancels {
		if t.Covers(child) {
			return
		}
	}
	_, ended := w.outcome(parent, len(w.stream))
	if (ended || w.now(parent).Ended()) && !w.late(child) {
		w.violate("F %s is called after the end of %s, and nothing covers it", child, parent)
	}
}

// checkOutcome checks the world before an outcome is stored.
func (w *world) checkOutcome(h *handler) {
	p := h.path(w)
	if _, ok := w.outcome(p, len(w.stream)); ok {
		return // the first one counts
	}
	s := w.now(p)
	switch {
	case s.Ended():
	case !answered(h.out):
		w.violate("B %s fails (%s) while its log says %v", p, h.out.Kind, s.Phase)
	case s.Phase != run.Ready || len(s.Turns) != len(h.state.Turns):
		w.violate(
			"B %s completes after turn %d while its log says %v after turn %d",
			p,
			len(h.state.Turns),
			s.Phase,
			len(s.Turns),
		)
	}
}

// checkQuiescent checks a world in which nothing more happens by itself: every
// run has ended, and each call has its outcome. Any other world passes.
func (w *world) checkQuiescent() {
	for i := range w.workers {
		if w.workers[i].busy {
			return
		}
	}
	for _, c := range w.cons {
		if c.due {
			return
		}
	}
	for _, m := range w.stream {
		switch m.kind {
		case call:
			w.checkEnd(m.path)
		case reply:
			w.checkReplies(m.path)
		case submission, logged, fired, cancelMessage, returned:
		}
	}
}

// checkEnd checks that a run has an outcome.
func (w *world) checkEnd(p subjects.Path) {
	if _, ok := w.outcome(p, len(w.stream)); !ok {
		s := w.now(p)
		w.violate("A %s never ends: all is acknowledged, it is %v, owner #%d", p, s.Phase, s.Owner)
	}
}

// checkReplies checks that each call has its first outcome, or that of the
// timer.
func (w *world) checkReplies(p subjects.Path) {
	if p.String() == "" {
		return
	}
	for t, turn := range w.now(p).Turns {
		for i, o := range turn.Outcomes {
			if o == nil || o.Kind == run.KindTimeout && w.last(fired, p) > 0 || turn.Entry.Calls[i].Failed() {
				continue
			}
			if first, ok := w.outcome(p.Child(t+1, i), len(w.stream)); !ok || !reflect.DeepEqual(first, *o) {
				w.violate("B call %d.%d of %s has %+v, its first outcome is %+v", t+1, i, p, *o, first)
			}
		}
	}
}
