package verify

import (
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// timer folds the end of a turn's time, which a worker has stored after the
// timer fired. Nothing fences that message: it has no effect on a turn that
// does not wait any more. With turn 0 it is the firing of the run's own timer,
// which the fold ignores.
func (c *Checker) timer(n *node, e run.TimedOut, m Message) {
	n.overdue = n.overdue || e.Turn == 0 && n.state.Phase != run.Polling
	if !n.broken && n.movesOn(e) {
		c.timedOut(n, e.Turn, m)
	}
	c.apply(n, e, m)
}

// movesOn reports whether an event changes the phase or the owner of a run.
func (n *node) movesOn(e run.Event) bool {
	next, err := n.state.Apply(e)
	return err == nil && (next.Phase != n.state.Phase || next.Owner != n.state.Owner)
}

// timedOut checks that the calls of a turn were published before its time was
// over. A worker publishes the timer after the calls that are due at first.
//
// A call that is still missing is a note, and no violation, in two cases. In an
// ordered turn the worker with the outcome of the call before may have died. In
// a turn that a supervisor or a person decided on, the timer was set before the
// calls were due.
func (c *Checker) timedOut(n *node, turn int, m Message) {
	e := n.state.Turns[turn-1].Entry
	first := slices.IndexFunc(e.Calls, func(call run.Call) bool { return !call.Failed() })
	for _, child := range n.unpublished() {
		report := c.violate
		if e.Ordered() && child.Index > first || e.Deferred() {
			report = c.note
		}
		const text = "call %d of turn %d, of %s, timed out without having been published"
		report(n.on(m), FanOut, text, child.Index, turn, child.Call.Agent)
	}
}

// cancel folds a cancel message, which covers the run and all runs below it. It
// leaves the reason out: the state of a node has no texts.
func (c *Checker) cancel(n *node, e run.Cancelled, m Message) {
	if n.tree.cancels == nil {
		n.tree.cancels = map[subjects.Path]uint64{}
	}
	if _, before := n.tree.cancels[n.path]; !before {
		n.tree.cancels[n.path] = m.Seq
	}
	if n.cancelled == 0 {
		n.cancelled = m.Seq
	}
	c.apply(n, run.Cancelled{Meta: e.Meta}, m)
}

// returned folds a return, and counts the request to the model that its worker
// has given up. Nothing about a return is a violation: a worker that has lost
// its lease may write one at any time.
func (c *Checker) returned(n *node, e run.Returned, m Message) {
	if e.AskedMS > 0 {
		c.wasted++
		c.wastedMS += e.AskedMS
		const text = "%s let go of turn %d (%s) after the model had been asked for %v"
		asked := time.Duration(e.AskedMS) * time.Millisecond
		c.note(n.on(m), Waste, text, e.Worker, e.Turn, e.Cause, asked)
	}
	e.Error = "" // the state of a node has no texts
	c.apply(n, e, m)
}
