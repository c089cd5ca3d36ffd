package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// call checks the call of a run.
func (c *Checker) call(n *node, e run.Called, m Message) {
	if n.call != 0 {
		c.violate(n.on(m), Orphan, "called a second time: message %d was the first", n.call)
		return
	}
	n.call = m.Seq
	parse := subjects.ParseCall
	if e.Tool != nil {
		parse = subjects.ParseToolCall
	}
	head, err := parse(c.run(n), m.Header)
	head.Deadline = head.Deadline.Add(m.Shift)
	n.deadline = head.Deadline
	n.callShift = m.Shift
	if n.path.IsRoot() {
		c.longest = max(c.longest, head.Deadline.Sub(m.Time))
	}
	n.maxDepth = head.MaxDepth
	switch {
	case err != nil:
		n.callErr = err
	case m.Gone:
		n.callErr = errors.New("the body of the call is gone")
	case e.Malformed != nil:
		n.callErr = e.Malformed
	}
	called := run.Called{Meta: e.Meta}
	if t := e.Tool; t != nil {
		called.Tool = &run.ToolInput{Name: shared(t.Name), OnUnknown: t.OnUnknown, Approvers: t.Approvers}
	}
	c.apply(n, called, m)
	if n.callErr != nil {
		// Report judges the call, since a worker may refuse it later.
		return
	}
	n.tree.addScopes(head.Scopes)
	if path, turn, index, below := n.path.Parent(); below {
		n.parent = n.tree.runs[place{head.Parent, path}]
		c.compareCall(n.parent, n, madeCall{head, e.Input, turn, index, m})
	}
}

// madeCall is a call as it was made.
type madeCall struct {
	head        subjects.Header
	in          run.Input
	turn, index int
	Message
}

// compareCall compares a call with the decision on its caller's log.
func (c *Checker) compareCall(by, n *node, d madeCall) {
	if by == nil || by.call == 0 {
		c.violate(n.on(d.Message), Orphan, "called by %s, which was never called itself", d.head.Parent)
		return
	}
	if by.broken {
		return
	}
	here := n.on(d.Message).per(by)
	call, ok := by.decision(d.turn, d.index)
	switch {
	case !ok:
		c.violate(here, Orphan, "its caller's log has not decided call %d of turn %d", d.index, d.turn)
	case call.Failed():
		c.violate(here, Orphan, "its caller had refused the call: %s", call.Error)
	case call.Agent != n.agent.String():
		c.violate(here, Orphan, "its caller called %s there", call.Agent)
	case call.Op == run.OpReview:
		// A review's task follows from texts that are not kept.
		c.callBounds(by, n, call, d)
		c.callAfterEnd(by, n, d)
	case call.Task != d.in.Task || call.Context != d.in.Context:
		c.violate(here, Orphan, "its task or context differs from that of its caller's model")
	case !sameInput(by.state.Start().InputFor(*call), d.in):
		c.violate(here, Orphan, "its caller passes on more than it may, or something else")
	default:
		c.callBounds(by, n, call, d)
		c.callAfterEnd(by, n, d)
		// The texts were compared and are not kept.
		call.Task = ""
		call.Context = ""
		call.Cwd = ""
		call.Arguments = nil
	}
}

func sameInput(decided, made run.Input) bool {
	a, err := json.Marshal(decided)
	b, err2 := json.Marshal(made)
	return err == nil && err2 == nil && bytes.Equal(a, b)
}

// callBounds checks a call's deadline and depth.
func (c *Checker) callBounds(by, n *node, call *run.Call, d madeCall) {
	here := n.on(d.Message)
	deadline := d.head.Deadline
	if d.Shift != 0 {
		// Workers measure one step of the server's clock a little
		// differently.
		deadline = deadline.Add(-c.cfg.Slack)
	}
	allowed := by.dueDeadline(d.turn, d.index, call.Deadline)
	switch {
	case d.Shift != by.callShift || d.Shift != by.entryShift:
		// The server's clock was set between the decision and the call.
		// A worker that was stopped in that moment writes a deadline of
		// the old clock.
	case deadline.After(allowed):
		const text = "called with %s, which is %s later than decided"
		c.violate(here, Deadline, text, stamp(deadline), deadline.Sub(allowed))
	case !by.deadline.IsZero() && deadline.After(by.deadline):
		const text = "called with %s, which is %s later than its caller's own deadline"
		c.violate(here, Deadline, text, stamp(deadline), deadline.Sub(by.deadline))
	}
	if d.head.MaxDepth > max(by.maxDepth, by.path.Depth()+1) {
		const text = "called with a depth of at most %d, where its caller may reach %d"
		c.violate(here, Deadline, text, d.head.MaxDepth, by.maxDepth)
	}
}

// dueDeadline returns the deadline of a call that is owed now. If the call had
// to wait for others, it counts from the moment at which the call became due.
func (n *node) dueDeadline(turn, index int, decided time.Time) time.Time {
	for _, child := range n.due() {
		if turn == len(n.state.Turns) && child.Index == index {
			return child.Deadline
		}
	}
	return decided
}

// callAfterEnd checks that a run calls no other after its end. A worker that
// froze before it called may do so where that has no effect: a cancel message
// is there first, the call's time is over, or the caller was poisoned.
func (c *Checker) callAfterEnd(by, n *node, d madeCall) {
	ended := by.logEnd
	if ended == 0 && by.end != nil {
		ended = by.end.seq
	}
	here := n.on(d.Message)
	switch {
	case ended == 0:
	case n.cancelUpTo(d.Seq) != 0, !d.Time.Before(d.head.Deadline),
		by.end != nil && by.end.kind == run.KindPoisoned:
		c.note(here, AfterEnd, "called after its caller's end, message %d, without effect", ended)
	default:
		c.violate(here, AfterEnd, "called after its caller's end, message %d", ended)
	}
}
