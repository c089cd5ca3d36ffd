package verify

import (
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// entry checks a log entry, and folds it.
func (c *Checker) entry(n *node, e run.Entry, m Message) {
	if !c.takesEntry(n, m) {
		return
	}
	n.entryShift = m.Shift
	c.settle(n, e)
	if e.Index != n.state.LogIndex+1 {
		c.violate(n.on(m), Log, "a hole: the entry has index %d after %d", e.Index, n.state.LogIndex)
		n.broken = true
		return
	}
	if !c.entryAfterEnd(n, e, m) {
		c.entryTrigger(n, e, m)
		switch e.Kind {
		case run.EntryTurn, run.EntryIdle, run.EntryFinal:
			c.answer(n, e, m)
		case run.EntryStarted:
			c.attempt(n, m)
		case run.EntryHeld:
			c.held(n, e, m)
		case run.EntryEnded, run.EntryTask:
		}
	}
	c.foldEntry(n, e, m)
}

// attempt checks the start of a tool with the effect ToolOnce. A second attempt
// has to be one that a person or the tool's settings ask for, or follow one
// that the tool can show to have had no effect.
func (c *Checker) attempt(n *node, m Message) {
	before, in := n.state.Attempt, n.state.Input.Tool
	switch {
	case before == nil || in == nil:
	case n.state.MayBeginAgain, in.OnUnknown == run.UnknownAgain, len(before.Detail) > 0:
		c.note(n.on(m), Effect, "begun again, after an attempt of %s", before.Worker)
	default:
		c.violate(n.on(m), Effect, "begun again, after an attempt of %s that may have taken effect", before.Worker)
	}
}

// held checks the entry by which a tool run waits for a person. The tool or its
// settings have to ask for that.
func (c *Checker) held(n *node, e run.Entry, m Message) {
	if in := n.state.Input.Tool; in != nil && e.Form == nil && in.OnUnknown != run.UnknownAsk {
		c.violate(n.on(m), Effect, "held for a person, though the tool's settings do not ask one")
	}
}

// brokenEntry takes a log entry that cannot be read.
func (c *Checker) brokenEntry(n *node, err error, m Message) {
	if !c.takesEntry(n, m) {
		return
	}
	if m.Gone {
		c.note(n.on(m), Log, "the body of a log entry is gone: the run is not checked further")
	} else {
		c.violate(n.on(m), Log, "%v", err)
	}
	n.broken = true
}

// takesEntry reports whether the run's log is checked.
func (c *Checker) takesEntry(n *node, m Message) bool {
	if n.call == 0 {
		c.violate(n.on(m), Orphan, "a log entry of a run that was not called")
		n.broken = true
	}
	return !n.broken
}

// foldEntry folds an entry without the parts that only a model needs.
func (c *Checker) foldEntry(n *node, e run.Entry, m Message) {
	if e.Start != nil {
		n.maxDepth = min(n.maxDepth, e.Start.MaxDepth)
		e.Start = passedOn(*e.Start)
	}
	e.Answer = nil
	if e.Kind != run.EntryStarted {
		e.Worker = ""
	}
	for i := range e.Calls {
		e.Calls[i].Agent = shared(e.Calls[i].Agent)
	}
	if e.Kind == run.EntryEnded {
		n.logEnd = m.Seq
	}
	if e.Form != nil {
		e.Form = &run.Form{ID: e.Form.ID}
	}
	c.apply(n, e.Event(run.Meta{Seq: m.Seq, Time: m.Time}), m)
}

// passedOn keeps of a run's start its bounds, and the parts that it passes on
// to the runs that it calls.
func passedOn(s run.Start) *run.Start {
	s.System = ""
	s.User = ""
	s.Scopes = nil
	s.Memory = nil
	s.Tools = slices.Clone(s.Tools)
	for i := range s.Tools {
		s.Tools[i].Description = ""
		s.Tools[i].Parameters = nil
	}
	return &s
}

// entryTrigger checks the trigger of an entry, and the sequence up to which its
// writer had read.
func (c *Checker) entryTrigger(n *node, e run.Entry, m Message) {
	if !slices.Contains(n.triggers, e.Trigger) {
		c.violate(n.on(m), Order, "written under message %d, which is none of this run's before it", e.Trigger)
		return
	}
	if e.Seen < e.Trigger || e.Seen >= m.Seq {
		const text = "its writer had read up to %d, which is not between message %d, its trigger, and itself"
		c.violate(n.on(m), Order, text, e.Seen, e.Trigger)
	}
}

// answer checks an entry with an answer of the model, or with the reason why
// there is none.
func (c *Checker) answer(n *node, e run.Entry, m Message) {
	here := n.on(m)
	subject := "an answer"
	if e.Kind == run.EntryTurn {
		subject = "a turn"
		if late := c.late(n, m.Time); late > 0 {
			const text = "a turn stored %s after the deadline: the model was slow to end, or the server to store"
			c.note(here, Deadline, text, late)
		}
	}
	// A cancel message before the call need not have been read. CancelsSeen
	// covers that.
	if n.cancelled > n.call && e.Seen >= n.cancelled {
		const text = "%s by a worker that had read the run's cancel message, message %d"
		c.violate(here, AfterEnd, text, subject, n.cancelled)
	}
	c.checkCancelsSeen(n, e.CancelsSeen, m)
	if reason := n.awaits(); reason != "" {
		c.violate(here, FanOut, "%s while %s", subject, reason)
		n.broken = true
		n.skippedWait = true
	}
	c.sentBefore(n, m)
}

// checkCancelsSeen checks that the model was not asked by a worker that knew of
// a cancel message over the run. Seen is the newest cancel message that the
// worker had seen.
func (c *Checker) checkCancelsSeen(n *node, seen uint64, m Message) {
	if at := n.cancelUpTo(seen); at != 0 {
		c.violate(n.on(m), AfterCancel, "the model was asked by a worker that knew of the cancel message %d", at)
	}
}

// entryAfterEnd reports whether an entry was stored after the run's end. The
// entry that ends a log fences every writer. An outcome does not fence the log:
// two workers may hold one run after a redelivery. One stores an outcome, and
// the other one an entry, after which it finds the outcome and stops.
func (c *Checker) entryAfterEnd(n *node, e run.Entry, m Message) bool {
	here := n.on(m)
	switch {
	case n.logEnd != 0:
		c.violate(here, AfterEnd, "a log entry after the one that ended the run, message %d", n.logEnd)
	case n.end == nil:
		return false
	case shared(e.Worker) != n.end.worker && e.Trigger < n.end.seq && m.Fenced && m.Fence == n.state.LogSeq:
		const text = "a log entry after the run's outcome, message %d, by another worker, without effect"
		c.note(here, AfterEnd, text, n.end.seq)
	default:
		c.violate(here, AfterEnd, "a log entry after the run's outcome, message %d", n.end.seq)
	}
	return true
}

// late returns the time between the run's deadline and a moment beyond the
// slack, 0 if the moment is in time.
func (c *Checker) late(n *node, at time.Time) time.Duration {
	if n.deadline.IsZero() || !at.After(n.deadline.Add(c.cfg.Slack)) {
		return 0
	}
	return at.Sub(n.deadline)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
