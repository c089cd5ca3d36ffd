package verify

import (
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// result checks the outcome of a root.
func (c *Checker) result(n *node, m Message) {
	o, ok := c.outcome(n, m)
	ok = ok && c.signed(n, n, o, m)
	if ok && n.call == 0 && n.end == nil && o.Status == run.StatusCompleted {
		c.violate(n, m.Seq, Outcome, "completed, and was never called")
	}
	c.conclude(n, o, ok, m)
}

// reply checks the outcome of a call. The slot names the caller; whose it is,
// the caller's log says.
func (c *Checker) reply(by *node, at subjects.Address, m Message) {
	by.triggers = append(by.triggers, m.Seq)
	o, ok := c.outcome(by, m)
	if by.call == 0 {
		c.violate(by, m.Seq, Orphan, "an outcome for a run that was not called itself")
		return
	}
	if n := c.answered(by, at, o, m); n != nil {
		ok = ok && c.signed(by, n, o, m)
		c.conclude(n, o, ok, m)
	}
	kept := run.Outcome{Status: o.Status}
	if call, ok := by.decision(at.Turn, at.Index); ok && call.Op == run.OpReview {
		// what it comes to moves the run
		kept.Result = o.Result
	}
	c.apply(by, run.Replied{Meta: meta(m), Turn: at.Turn, Index: at.Index, Outcome: kept}, m)
}

// answered finds the run whose outcome belongs in a slot, nil if there is none.
func (c *Checker) answered(by *node, at subjects.Address, o run.Outcome, m Message) *node {
	if by.broken {
		return by.named(at, o)
	}
	call, ok := by.decision(at.Turn, at.Index)
	if !ok || call.Failed() {
		c.orphan(by, by, m.Seq, "an outcome of call %d of turn %d, which nobody made", at.Index, at.Turn)
		return by.named(at, o)
	}
	n := by.child(at.Turn, run.Child{Index: at.Index, Call: *call})
	if n == nil || n.call == 0 {
		c.orphan(by, by, m.Seq, "an outcome of call %d of turn %d, which was not published", at.Index, at.Turn)
		return nil
	}
	return n
}

// named is the run that an outcome in a slot says it is of, where the log of
// the caller has nothing to say; nil if it was not called.
func (n *node) named(at subjects.Address, o run.Outcome) *node {
	agent, err := subjects.ParseAgent(o.Agent)
	child := n.tree.runs[place{agent, n.path.Child(at.Turn, at.Index)}]
	if err != nil || child == nil || child.call == 0 || o.Path != child.path.String() {
		return nil
	}
	return child
}

// outcome reads an outcome. One that cannot be read counts as failed, as it
// does for workers.
func (c *Checker) outcome(n *node, m Message) (run.Outcome, bool) {
	if m.Gone {
		c.note(n, m.Seq, Outcome, "the body of an outcome is gone")
		return run.Outcome{Status: run.StatusFailed}, false
	}
	o, err := run.DecodeOutcome(m.Body)
	if err != nil {
		c.violate(n, m.Seq, Outcome, "malformed %v", err)
		return run.Outcome{Status: run.StatusFailed}, false
	}
	return o, true
}

// signed checks that an outcome is of the run that its place belongs to.
func (c *Checker) signed(in, n *node, o run.Outcome, m Message) bool {
	if o.Agent == n.agent.String() && o.Path == n.path.String() && o.Tree == n.tree.id.String() {
		return true
	}
	c.violate(
		in,
		m.Seq,
		Order,
		"the outcome of %s %s of tree %s is where that of %s %s belongs",
		o.Path,
		o.Agent,
		o.Tree,
		n.path,
		n.agent,
	)
	return false
}

// conclude ends a run with what is stored where its outcome belongs. Two
// workers can both store one; the first counts. What is not good as an outcome
// ends the run too, since workers look no further.
func (c *Checker) conclude(n *node, o run.Outcome, good bool, m Message) {
	if n.end != nil {
		c.note(n, m.Seq, Outcome, "a second outcome: message %d was the first, and counts", n.end.seq)
		return
	}
	n.end = &end{m.Seq, o.Status, o.Kind, c.name(o.Worker)}
	if good && n.call != 0 {
		c.ended(n, o, m)
	}
	c.apply(n, run.OutcomeStored{Meta: meta(m), Outcome: run.Outcome{Status: o.Status, Kind: o.Kind}}, m)
	n.shed()
}

// shed drops of a run that has ended what only its next turn would need. What
// it has called stays: more may still be stored for it.
func (n *node) shed() {
	n.triggers = nil
	for i, t := range n.state.Turns {
		n.state.Turns[i] = run.Turn{
			Entry: run.Entry{
				Kind:       t.Entry.Kind,
				Seen:       t.Entry.Seen,
				End:        t.Entry.End,
				Start:      t.Entry.Start,
				Calls:      t.Entry.Calls,
				Review:     t.Entry.Review,
				Sequential: t.Entry.Sequential,
			},
		}
	}
}

// ended checks that a run was free to end like this.
func (c *Checker) ended(n *node, o run.Outcome, m Message) {
	if waits := n.waits(); waits != "" && !n.broken && !fromOutside(o) {
		c.violate(n, m.Seq, FanOut, "%s while %s", o.Status, waits)
		n.hasty = true
	}
	c.forksEnded(n, o, m)
	if o.Status != run.StatusCompleted {
		return
	}
	if late := c.late(n, m.Time); late > 0 {
		say := c.violate
		if c.late(n, n.state.CalledAt.Add(time.Duration(o.DurationMS)*time.Millisecond)) == 0 {
			// the answer was there in time, and the server stored
			// nothing
			say = c.note
		} else if last := len(n.state.Turns) - 1; last >= 0 && n.state.Turns[last].Entry.Kind == run.EntryFinal && c.late(n, n.state.Turns[last].Time) == 0 {
			// it was on the log in time, and another worker had to
			// take over
			say = c.note
		}
		say(n, m.Seq, Deadline, "completed %s after the deadline", late)
	}
	c.sent(n, m)
	if n.logEnd != 0 {
		c.violate(n, m.Seq, AfterEnd, "completed after its log had ended it, message %d", n.logEnd)
	}
	if at := n.stopped(o.CancelsSeen); at != 0 {
		c.violate(
			n,
			m.Seq,
			Tombstone,
			"the model was asked by a worker that knew of the cancellation in message %d",
			at,
		)
	}
}

// forksEnded checks that the forks of a run that has ended have ended or were
// told to.
func (c *Checker) forksEnded(n *node, o run.Outcome, m Message) {
	if n.broken || o.Kind == run.KindPoisoned {
		return
	}
	for _, f := range n.state.Forks() {
		if b := n.child(f.Turn, f.Child); b == nil || b.cancel == 0 && b.end == nil {
			c.violate(
				n,
				m.Seq,
				FanOut,
				"%s while its fork %s was at work, and nobody told it to end",
				o.Status,
				f.Call.To,
			)
		}
	}
}

// fromOutside reports whether a run was ended by something else than its own
// model and turns: that may happen while it waits.
func fromOutside(o run.Outcome) bool {
	switch o.Kind {
	case run.KindCancelled, run.KindTimeout, run.KindPoisoned, run.KindBudget:
		return o.Status == run.StatusFailed
	case run.KindError, run.KindTurns, run.KindDepth, run.KindUnknownAgent, run.KindSubAgentError, run.KindPolicy:
	}
	return false
}
