package verify

import (
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// result checks the outcome of a root.
func (c *Checker) result(n *node, e run.OutcomeStored, m Message) {
	if c.refuses(n, c.run(n), m) {
		return
	}
	valid := c.readable(n, e.Malformed, m) && c.ofRun(n, n, e.Outcome, m)
	if valid && n.call == 0 && n.end == nil && e.Outcome.Status == run.StatusCompleted {
		c.violate(n.on(m), Outcome, "completed, and was never called")
	}
	c.conclude(n, e.Outcome, valid, m)
}

// reply checks the outcome of a call. Its subject names the caller, and the
// caller's log says which run it is of.
func (c *Checker) reply(by *node, e run.Replied, m Message) {
	name := e.Outcome.Agent
	if call, ok := by.decision(e.Turn, e.Index); ok {
		name = call.Agent
	}
	agent, err := subjects.ParseAgent(name)
	child := c.cfg.Space.Run(agent, by.tree.id, by.path.Child(e.Turn, e.Index))
	if err == nil && c.refuses(by, child, m) {
		by.refused = append(by.refused, refused{e, m})
		return
	}
	c.countReply(by, e, m)
}

// refuses reports whether a message does not count as the outcome of a run, and
// notes it.
func (c *Checker) refuses(in *node, of subjects.Run, m Message) bool {
	if c.cfg.Refuses == nil {
		return false
	}
	why := c.cfg.Refuses(of, m)
	if why != "" {
		c.note(in.on(m), Foreign, "an outcome of %s that does not count: %s", of.Path, why)
	}
	return why != ""
}

// settle counts the refused outcomes that the run's log counts. Its writer may
// have required no signatures, or have known another grant.
func (c *Checker) settle(by *node, e run.Entry) {
	by.refused = slices.DeleteFunc(by.refused, func(r refused) bool {
		if r.event.Seq > e.Seen {
			return false
		}
		if counts, known := e.Counts(r.event.Seq); counts && known {
			// The fold takes it though it has read later messages.
			seq := by.state.Seq
			by.state.Seq = r.event.Seq - 1
			c.countReply(by, r.event, r.message)
			by.state.Seq = seq
		}
		return true
	})
}

// countReply checks the outcome of a call that counts.
func (c *Checker) countReply(by *node, e run.Replied, m Message) {
	valid := c.readable(by, e.Malformed, m)
	if by.call == 0 {
		c.violate(by.on(m), Orphan, "an outcome for a run that was not called itself")
		return
	}
	if n := c.calledRun(by, e, m); n != nil {
		valid = valid && c.ofRun(by, n, e.Outcome, m)
		c.conclude(n, e.Outcome, valid, m)
	}
	kept := run.Outcome{Status: e.Outcome.Status}
	if call, ok := by.decision(e.Turn, e.Index); ok && call.Op == run.OpReview {
		// The verdict moves the run.
		kept.Result = e.Outcome.Result
	}
	c.apply(by, run.Replied{Meta: e.Meta, Turn: e.Turn, Index: e.Index, Outcome: kept}, m)
}

// calledRun finds the run that answers at a reply subject, nil if there is
// none.
func (c *Checker) calledRun(by *node, e run.Replied, m Message) *node {
	if by.broken {
		return by.claimed(e)
	}
	here := by.on(m).per(by)
	call, ok := by.decision(e.Turn, e.Index)
	if !ok || call.Failed() {
		c.violate(here, Orphan, "an outcome of call %d of turn %d, which its log does not make", e.Index, e.Turn)
		return by.claimed(e)
	}
	n := by.child(e.Turn, e.Index, call.Agent)
	if n == nil || n.call == 0 {
		c.violate(here, Orphan, "an outcome of call %d of turn %d, which was not published", e.Index, e.Turn)
		return nil
	}
	return n
}

// claimed finds the run that an outcome names, for a caller without a usable
// log; nil if that run was not called.
func (n *node) claimed(e run.Replied) *node {
	child := n.child(e.Turn, e.Index, e.Outcome.Agent)
	if child == nil || child.call == 0 || e.Outcome.Path != child.path.String() {
		return nil
	}
	return child
}

// readable checks that an outcome can be read. One that cannot be read counts
// as failed, as it does for workers.
func (c *Checker) readable(n *node, malformed error, m Message) bool {
	switch {
	case m.Gone:
		c.note(n.on(m), Outcome, "the body of an outcome is gone")
	case malformed != nil:
		c.violate(n.on(m), Outcome, "malformed %v", malformed)
	}
	return !m.Gone && malformed == nil
}

// ofRun checks that an outcome is of the run that its subject belongs to.
func (c *Checker) ofRun(in, n *node, o run.Outcome, m Message) bool {
	if o.Agent == n.agent.String() && o.Path == n.path.String() && o.Tree == n.tree.id.String() {
		return true
	}
	const text = "the outcome of %s %s of tree %s is where that of %s %s belongs"
	c.violate(in.on(m), Order, text, o.Path, o.Agent, o.Tree, n.path, n.agent)
	return false
}

// conclude ends a run with the message that is stored where its outcome
// belongs. Two workers can both store one; the first counts. An outcome that is
// not valid ends the run too, since workers look no further.
func (c *Checker) conclude(n *node, o run.Outcome, valid bool, m Message) {
	if n.end != nil {
		c.note(n.on(m), Outcome, "a second outcome: message %d was the first, and counts", n.end.seq)
		return
	}
	n.end = &end{m.Seq, o.Status, o.Kind, shared(o.Worker)}
	if valid && n.call != 0 {
		c.ended(n, o, m)
		c.name(n, o, m)
	}
	c.apply(n, run.OutcomeStored{
		Meta:    run.Meta{Seq: m.Seq, Time: m.Time},
		Outcome: run.Outcome{Status: o.Status, Kind: o.Kind},
	}, m)
	n.shrink()
}

// shrink drops the parts of an ended run that only its next turn would need.
// Its calls stay, since more messages of them may follow.
func (n *node) shrink() {
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

// ended checks that a run was free to end with an outcome.
func (c *Checker) ended(n *node, o run.Outcome, m Message) {
	here := n.on(m)
	late := n.state.Hold != nil && n.state.Attempt != nil && n.state.Attempt.Worker == o.Worker
	if reason := n.awaits(); reason != "" && late && !n.broken {
		c.note(here, Effect, "%s by the late report of %s, while %s", o.Status, o.Worker, reason)
	} else if reason != "" && !n.broken && !fromOutside(o) {
		c.violate(here, FanOut, "%s while %s", o.Status, reason)
		n.skippedWait = true
	}
	c.forksEnded(n, o, m)
	if o.Status != run.StatusCompleted {
		return
	}
	if late := c.late(n, m.Time); late > 0 {
		report := c.violate
		if c.answeredInTime(n, o) {
			report = c.note
		}
		report(here, Deadline, "completed %s after the deadline", late)
	}
	c.sentBefore(n, m)
	if n.logEnd != 0 {
		c.violate(here, AfterEnd, "completed after its log had ended it, message %d", n.logEnd)
	}
	c.checkCancelsSeen(n, o.CancelsSeen, m)
}

// answeredInTime reports whether the answer of a late outcome was there before
// the deadline. Then the server was slow to store the outcome, or another
// worker had to take over with the answer on the log.
func (c *Checker) answeredInTime(n *node, o run.Outcome) bool {
	if c.late(n, n.state.CalledAt.Add(time.Duration(o.DurationMS)*time.Millisecond)) == 0 {
		return true
	}
	last := len(n.state.Turns) - 1
	return last >= 0 && n.state.Turns[last].Entry.Kind == run.EntryFinal && c.late(n, n.state.Turns[last].Time) == 0
}

// forksEnded checks that the forks of a run that has ended have ended or were
// cancelled.
func (c *Checker) forksEnded(n *node, o run.Outcome, m Message) {
	if n.broken || o.Kind == run.KindPoisoned {
		return
	}
	for _, f := range n.state.Turns.Forks() {
		if b := n.child(f.Turn, f.Index, f.Call.Agent); b == nil || b.cancelled == 0 && b.end == nil {
			const text = "%s while its fork %s was at work and has no cancel message"
			c.violate(n.on(m), FanOut, text, o.Status, f.Call.To)
		}
	}
}

// fromOutside reports whether a run was ended by something else than its own
// model and turns. That may happen while it waits.
func fromOutside(o run.Outcome) bool {
	switch o.Kind {
	case run.KindCancelled, run.KindTimeout, run.KindPoisoned, run.KindBudget:
		return o.Status == run.StatusFailed
	case run.KindUnknown, run.KindError, run.KindTurns, run.KindDepth, run.KindUnknownAgent, run.KindSubAgentError,
		run.KindPolicy:
	}
	return false
}
