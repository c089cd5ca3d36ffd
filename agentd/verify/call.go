package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// call checks the request to run.
func (c *Checker) call(n *node, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	if n.call != 0 {
		c.violate(n, m.Seq, Orphan, "called a second time: message %d was the first", n.call)
		return
	}
	n.call = m.Seq
	head, err := subjects.ParseCall(c.run(n), m.Header)
	n.deadline, n.maxDepth, n.bad = head.Deadline, head.MaxDepth, err
	in, err := inputOf(m)
	if err != nil && n.bad == nil {
		n.bad = err
	}
	c.apply(n, run.Called{Meta: meta(m)}, m)
	if n.bad != nil {
		// told at the end: it may be refused
		return
	}
	n.tree.bounded(head.Scopes)
	if _, turn, index, below := n.path.Parent(); below {
		n.up = n.caller(head.Parent)
		c.called(n.up, n, decided{head, in, turn, index, m})
	}
}

// inputOf is what a call asks.
func inputOf(m Message) (in run.Input, err error) {
	if m.Gone {
		return in, errors.New("the body of the call is gone")
	}
	if err := json.Unmarshal(m.Body, &in); err != nil {
		return in, fmt.Errorf("body of the call: %w", err)
	}
	return in, nil
}

// decided is a call as it was made, to be compared with what was decided.
type decided struct {
	head        subjects.Header
	in          run.Input
	turn, index int
	Message
}

// called compares a call with what its caller's log says of it.
func (c *Checker) called(by, n *node, d decided) {
	if by == nil || by.call == 0 {
		c.violate(n, d.Seq, Orphan, "called by %s, which was never called itself", d.head.Parent)
		return
	}
	if by.broken {
		return
	}
	call, ok := by.decision(d.turn, d.index)
	switch {
	case !ok:
		c.orphan(by, n, d.Seq, "its caller's log has not decided call %d of turn %d", d.index, d.turn)
	case call.Failed():
		c.orphan(by, n, d.Seq, "its caller had refused the call: %s", call.Error)
	case call.Agent != n.agent.String():
		c.orphan(by, n, d.Seq, "its caller called %s there", call.Agent)
	case call.Op == run.OpReview:
		// what it is asked follows from texts that are not kept
		c.limits(by, n, call, d)
		c.calledAfterEnd(by, n, d)
	case call.Task != d.in.Task || call.Context != d.in.Context:
		c.orphan(by, n, d.Seq, "it is asked for something else than its caller's model did")
	case !same(by.state.Start().InputFor(*call), d.in):
		c.orphan(by, n, d.Seq, "it has more, or something else, from its caller than that may pass on")
	default:
		c.limits(by, n, call, d)
		c.calledAfterEnd(by, n, d)
		call.Task, call.Context, call.Cwd = "", "", "" // compared: not kept
	}
}

// same compares what was to be asked with what was.
func same(decided, asked run.Input) bool {
	a, err := json.Marshal(decided)
	b, err2 := json.Marshal(asked)
	return err == nil && err2 == nil && bytes.Equal(a, b)
}

// limits checks what a call may take.
func (c *Checker) limits(by, n *node, call *run.Call, d decided) {
	allowed := call.Deadline
	if by.state.Turns[d.turn-1].Entry.Sequential {
		allowed = by.due(d.turn, d.index, allowed)
	}
	switch {
	case d.head.Deadline.After(allowed):
		c.violate(
			n,
			d.Seq,
			Deadline,
			"called with %s, which is %s later than decided",
			stamp(d.head.Deadline),
			d.head.Deadline.Sub(allowed),
		)
	case !by.deadline.IsZero() && d.head.Deadline.After(by.deadline):
		c.violate(
			n,
			d.Seq,
			Deadline,
			"called with %s, which is %s later than its caller's own deadline",
			stamp(d.head.Deadline),
			d.head.Deadline.Sub(by.deadline),
		)
	}
	if d.head.MaxDepth > max(by.maxDepth, by.path.Depth()+1) {
		c.violate(
			n,
			d.Seq,
			Deadline,
			"called with a depth of at most %d, where its caller may reach %d",
			d.head.MaxDepth,
			by.maxDepth,
		)
	}
}

// due is the deadline of a call that is owed at this moment: of a sequential
// one, from when it became due.
func (n *node) due(turn, index int, decided time.Time) time.Time {
	for _, e := range n.state.Outstanding().All() {
		if owed, ok := e.(run.CallChildren); ok && owed.Turn == turn {
			for _, child := range owed.Children {
				if child.Index == index {
					return child.Deadline
				}
			}
		}
	}
	return decided
}

// calledAfterEnd checks that a caller that has ended calls nobody. One that
// froze before it called may do so, where that has no effect: a tombstone is
// there first, or the call's time is over.
func (c *Checker) calledAfterEnd(by, n *node, d decided) {
	over := by.logEnd
	if over == 0 && by.end != nil {
		over = by.end.seq
	}
	switch {
	case over == 0:
	case n.covered(d.Seq), !d.Time.Before(d.head.Deadline), by.end != nil && by.end.kind == run.KindPoisoned:
		c.note(n, d.Seq, AfterEnd, "called after its caller's end, message %d, without effect", over)
	default:
		c.violate(n, d.Seq, AfterEnd, "called after its caller's end, message %d", over)
	}
}

func meta(m Message) run.Meta { return run.Meta{Seq: m.Seq, Time: m.Time} }
