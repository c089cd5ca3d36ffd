package run_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// The files protocol_*_test.go model the protocol of calls, outcomes, timers
// and cancel messages around the real State. A stream in memory delivers at
// least once, and workers take the steps of package agentd. The function steps
// lists everything that may happen next, and do takes one step
// deterministically. So random walks and an exhaustive search share one world.
// The violations are listed in protocol_check_test.go.

// kind is the kind of a message of the world.
type kind byte

const (
	submission kind = iota
	call
	logged
	// the outcome of the child of a turn and index, stored for path; for
	// the zero path the result
	reply
	fired
	cancelMessage
	// the return of a delivery: turn is its number, and index the place of
	// the delivered message in the stream
	returned
)

var kinds = [...]string{"submit", "call", "log", "reply", "timer", "cancel", "returned"}

// msg is one stored message. Its sequence is its index in the stream plus one.
type msg struct {
	kind        kind
	path        subjects.Path
	turn, index int
	entry       run.Entry
	outcome     run.Outcome
	end         run.End
	// for the checks: the answer that the entry was made of
	answer answer
	// for the checks: the conversation that the model was shown
	saw string
	// its writer: a trigger and the number of its delivery. It only tells
	// worlds apart.
	by int
}

func (m msg) String() string {
	switch m.kind {
	case logged:
		return fmt.Sprintf(
			"%s.log[%d %s trigger=%d seen=%d]",
			m.path,
			m.entry.Index,
			m.answer,
			m.entry.Trigger,
			m.entry.Seen,
		)
	case reply:
		return fmt.Sprintf("%s.in.%d.%d=%s%s", m.path, m.turn, m.index, m.outcome.Status, m.outcome.Kind)
	case fired:
		return fmt.Sprintf("%s.in.timer.%d", m.path, m.turn)
	case returned:
		return fmt.Sprintf("%s.in.returned.%d-%d", m.path, m.index+1, m.turn)
	case submission, call, cancelMessage:
	}
	return m.path.String() + "." + kinds[m.kind]
}

// triggers reports whether workers get the message delivered.
func (m msg) triggers() bool {
	return m.kind != logged && (m.kind != reply || m.path != subjects.Path{})
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// event returns the event that the message is to its run.
func (m msg) event(seq uint64) run.Event {
	meta := run.Meta{Seq: seq, Time: epoch.Add(time.Duration(seq) * time.Millisecond)}
	switch m.kind {
	case call:
		return run.Called{Meta: meta, Input: run.Input{Task: m.path.String()}}
	case logged:
		if m.entry.Kind == run.EntryEnded {
			return run.Ended{Meta: meta, Entry: m.entry}
		}
		return run.Answered{Meta: meta, Entry: m.entry}
	case reply:
		return run.Replied{Meta: meta, Turn: m.turn, Index: m.index, Outcome: m.outcome}
	case fired:
		return run.TimedOut{Meta: meta, Turn: m.turn}
	case cancelMessage:
		return run.Cancelled{Meta: meta, End: m.end}
	case returned:
		return run.Returned{
			Meta: meta, Trigger: uint64(m.index + 1), Delivery: m.turn, Return: run.Return{Cause: run.ReturnDrained},
		}
	case submission:
	}
	return nil
}

// consumer is the server's knowledge of the deliveries of one message.
type consumer struct {
	acked, due bool
	// deliveries as the server counts them, from 1 again after a restart
	count int
	total int // deliveries in fact
}

// timer is a schedule that may fire.
type timer struct {
	path subjects.Path
	turn int
}

// asked is one request to the model.
type asked struct {
	path          subjects.Path
	turn, trig, n int // n: the delivery of the trigger
}

// budget bounds the faults that may still happen.
type budget struct {
	crash int // workers that die
	// leases that end without an acknowledgement
	redel  int
	forget int // acknowledgements that a restarted server forgets
	lose   int // acknowledgements of publishes that are lost
	cancel int
	fire   int
	drain  int // workers that give their trigger back
}

// world is one state of the stream, the server and the workers.
type world struct {
	scenario
	rules
	budget
	stream  []msg
	cons    []consumer
	cancels []subjects.Path // cancelled paths in stream order
	workers []handler
	armed   []timer
	asks    []asked
	// for the checks: a crash, drain, redelivery, restart or loss has
	// happened
	faulty bool
	// for the checks: the first violation, which begins with its letter
	bad      string
	tracing  bool
	happened string // the last step, in a trace
}

// newWorld returns the world before the first delivery of the root's call or
// submission.
func newWorld(s scenario, r rules, workers int) *world {
	w := &world{scenario: s, rules: r, budget: s.may, workers: make([]handler, workers)}
	first := msg{kind: call, path: subjects.Root}
	if s.submitted {
		first.kind = submission
	}
	w.publish(first)
	return w
}

// clone returns a world on which a step changes nothing of w.
func (w *world) clone() *world {
	n := *w
	n.stream = slices.Clip(w.stream) // stored messages never change
	n.cancels = slices.Clip(w.cancels)
	n.armed = slices.Clip(w.armed)
	n.asks = slices.Clip(w.asks)
	n.cons = slices.Clone(w.cons)
	n.workers = slices.Clone(w.workers)
	return &n
}

// publish stores a message and makes it due if it triggers a worker. It returns
// the sequence.
func (w *world) publish(m msg) (seq uint64) {
	w.stream = append(w.stream, m)
	w.cons = append(w.cons, consumer{due: m.triggers()})
	if m.kind == cancelMessage {
		w.cancels = append(w.cancels, m.path)
	}
	return uint64(len(w.stream))
}

// last is the sequence of the last message of a subject, 0 if there is none.
func (w *world) last(k kind, p subjects.Path) uint64 {
	for i, m := range slices.Backward(w.stream) {
		if m.kind == k && m.path == p {
			return uint64(i + 1)
		}
	}
	return 0
}

// has reports whether a message of a subject is stored.
func (w *world) has(k kind, p subjects.Path) bool { return w.last(k, p) > 0 }

// outcome returns the first outcome of a run among the first n messages.
func (w *world) outcome(p subjects.Path, n int) (run.Outcome, bool) {
	parent, turn, index, _ := p.Parent()
	for _, m := range w.stream[:n] {
		if m.kind == reply && m.path == parent && m.turn == turn && m.index == index {
			return m.outcome, true
		}
	}
	return run.Outcome{}, false
}

// own lists the sequences of the run's messages.
func (w *world) own(p subjects.Path) []uint64 {
	var seqs []uint64
	for i, m := range w.stream {
		if m.path == p && m.kind != submission {
			seqs = append(seqs, uint64(i+1))
		}
	}
	return seqs
}

// fold applies the run's messages after s up to a sequence.
func (w *world) fold(s run.State, p subjects.Path, upTo uint64) run.State {
	for i := s.Seq; i < upTo; i++ {
		m := w.stream[i]
		if m.path != p || m.kind == submission {
			continue
		}
		if m.kind == logged && m.entry.Kind == run.EntryTurn && !s.Ended() && conversation(s.Turns) != m.saw {
			w.violate(
				"E turn %d of %s: the model saw %q, the fold says %q",
				len(s.Turns)+1,
				p,
				m.saw,
				conversation(s.Turns),
			)
		}
		next, err := s.Apply(m.event(i + 1))
		if err != nil {
			w.violate("E %s: %v", p, err)
			return s
		}
		s = next
	}
	return s
}

// now is the fold of all messages of a run.
func (w *world) now(p subjects.Path) run.State {
	return w.fold(run.State{}, p, uint64(len(w.stream)))
}

// late reports whether the run's deadline has passed: a timer above it has
// fired. A timer never fires before the deadline of a call that it bounds.
func (w *world) late(p subjects.Path) bool {
	for _, m := range w.stream {
		if m.kind != fired {
			continue
		}
		if m.turn == 0 && m.path == subjects.Root {
			return true
		}
		for q, up := p, true; up; {
			var turn int
			q, turn, _, up = q.Parent()
			if up && q == m.path && turn == m.turn {
				return true
			}
		}
	}
	return false
}
