package run_test

import "github.com/axebus/axe/subjects"

// deliver gives the message k of the stream to an idle worker.
func (w *world) deliver(h *handler, k int) {
	c := &w.cons[k]
	c.due = false
	c.count++
	c.total++
	*h = handler{
		busy:   true,
		known:  h.known,
		trig:   k,
		count:  c.count,
		n:      c.total,
		stored: len(w.stream),
		minSeq: uint64(k + 1),
	}
	m := w.stream[k]
	h.slot = m.kind == call
	if (c.count > 1 || m.kind == call) && !w.noLeader {
		if own := w.own(m.path); len(own) > 0 {
			h.minSeq = own[len(own)-1]
		}
	}
	if m.kind == submission {
		h.writes = []msg{{kind: call, path: subjects.Root}, {kind: fired, path: subjects.Root}}
		h.goTo(atWrite)
	}
}

// learn tells a worker of a cancel message, which aborts a request in flight.
func (w *world) learn(h *handler, cancel int) {
	h.known |= 1 << cancel
	if h.busy && h.at == atAnswer && !w.noCancels && w.cancels[cancel].Covers(h.path(w)) {
		h.readAgain(h.state.Seq)
	}
}

// move takes a worker's next step in one of the ways that ways counts.
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
		w.takeAnswer(h, answers[way])
	case atCommit:
		w.commit(h)
	case atWrite:
		w.write(h)
	case atOutcome:
		w.moveOutcome(h, way)
	case atCancelSelf:
		w.cancelSelf(h)
		// The acknowledgement was lost, and the retry is refused.
		if way == 1 && h.at == atAck {
			w.lose--
			w.faulty = true
			h.readAgain(w.last(cancelMessage, h.path(w)))
		}
	case atAck:
		w.cons[h.trig].acked, w.cons[h.trig].due = true, false
		*h = handler{known: h.known}
	}
}

// moveOutcome publishes the outcome. In way 0 that is all. In the other two the
// server's acknowledgement is lost. Then the retry is stored as well (way 1,
// the server has forgotten the message id), or the trigger goes back (way 2).
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
