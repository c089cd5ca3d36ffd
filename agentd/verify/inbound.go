package verify

import (
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// timer folds a timer that fired. Timers cannot be fenced: one that fires for
// nobody, or that was set for what its turn does not wait for any more, is
// nothing.
func (c *Checker) timer(n *node, turn int, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	n.overdue = n.overdue || turn == 0
	fired := run.TimedOut{Meta: meta(m), Turn: turn}
	if !n.broken && n.moves(fired) {
		c.timedOut(n, turn, m)
	}
	c.apply(n, fired, m)
}

// moves reports whether an event changes what a run waits for, or who is to go
// on with it.
func (n *node) moves(e run.Event) bool {
	next, err := n.state.Apply(e)
	return err == nil && (next.Phase != n.state.Phase || next.Owner != n.state.Owner)
}

// timedOut checks that the calls of a turn were published. The timer is
// published after those that are due at first. A later one of a sequential turn
// has to wait for another worker if the one that holds the outcome before it
// dies, and meanwhile the time may be over; so have those of a turn that was
// looked at, whose timer was set for that before.
func (c *Checker) timedOut(n *node, turn int, m Message) {
	e := n.state.Turns[turn-1].Entry
	first := slices.IndexFunc(e.Calls, func(call run.Call) bool { return !call.Failed() })
	for _, child := range n.unpublished() {
		say := c.violate
		if e.Sequential && child.Index > first || e.Review != nil {
			say = c.note
		}
		say(
			n,
			m.Seq,
			FanOut,
			"call %d of turn %d, of %s, timed out without having been published",
			child.Index,
			turn,
			child.Call.Agent,
		)
	}
}

// interrupt folds that a person wants the run to stop.
func (c *Checker) interrupt(n *node, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	c.apply(n, run.Interrupted{Meta: meta(m)}, m)
}

// approve folds a person's word. What cannot be read is none, as it is for
// workers.
func (c *Checker) approve(n *node, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	a, err := run.DecodeApproval(m.Body)
	if m.Gone || err != nil {
		c.note(n, m.Seq, Foreign, "an approval that cannot be read")
		return
	}
	c.apply(n, run.Approved{Meta: meta(m), Approval: a}, m)
}

// cancel folds a tombstone: of the run, and over all runs below it.
func (c *Checker) cancel(n *node, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	if n.tree.tombs == nil {
		n.tree.tombs = map[subjects.Path]uint64{}
	}
	if _, before := n.tree.tombs[n.path]; !before {
		n.tree.tombs[n.path] = m.Seq
	}
	if n.cancel == 0 {
		n.cancel = m.Seq
	}
	c.apply(n, run.Cancelled{Meta: meta(m)}, m)
}
