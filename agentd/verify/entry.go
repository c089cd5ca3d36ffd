package verify

import (
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// entry checks a log message, and folds it.
func (c *Checker) entry(n *node, m Message) {
	if n.call == 0 {
		c.violate(n, m.Seq, Orphan, "a log entry of a run that was not called")
		n.broken = true
	}
	if n.broken {
		return
	}
	e, ok := c.decoded(n, m)
	if !ok {
		n.broken = true
		return
	}
	if e.Index != n.state.LogIndex+1 {
		c.violate(n, m.Seq, Log, "a hole: the entry has index %d after %d", e.Index, n.state.LogIndex)
		n.broken = true
		return
	}
	if !c.entryAfterEnd(n, e, m) {
		c.under(n, e, m)
		if e.Kind != run.EntryEnded {
			c.answer(n, e, m)
		}
	}
	c.fold(n, e, m)
}

// decoded reads an entry; what cannot be read breaks the log.
func (c *Checker) decoded(n *node, m Message) (run.Entry, bool) {
	if m.Gone {
		c.note(n, m.Seq, Log, "the body of a log entry is gone: the run is not checked further")
		return run.Entry{}, false
	}
	e, err := run.DecodeEntry(m.Body)
	if err != nil {
		c.violate(n, m.Seq, Log, "%v", err)
	}
	return e, err == nil
}

// fold applies an entry without what only a model needs.
func (c *Checker) fold(n *node, e run.Entry, m Message) {
	if e.Start != nil {
		n.maxDepth = min(n.maxDepth, e.Start.MaxDepth)
	}
	if e.Start != nil {
		e.Start = passedOn(*e.Start)
	}
	e.Answer, e.Worker = nil, ""
	for i := range e.Calls {
		e.Calls[i].Agent = c.name(e.Calls[i].Agent)
	}
	if e.Kind == run.EntryEnded {
		n.logEnd = m.Seq
	}
	c.apply(n, e.Event(meta(m)), m)
}

// passedOn keeps of what a run was started with its bounds, and what it passes
// on to those that it calls.
func passedOn(s run.Start) *run.Start {
	s.System, s.User, s.Scopes, s.Memory = "", "", nil, nil
	s.Tools = slices.Clone(s.Tools)
	for i := range s.Tools {
		s.Tools[i].Description, s.Tools[i].Parameters = "", nil
	}
	return &s
}

// under checks what an entry says of how it came about.
func (c *Checker) under(n *node, e run.Entry, m Message) {
	if !slices.Contains(n.triggers, e.Trigger) {
		c.violate(n, m.Seq, Order, "written under message %d, which is none of this run's before it", e.Trigger)
		return
	}
	if e.Seen < e.Trigger || e.Seen >= m.Seq {
		c.violate(
			n,
			m.Seq,
			Order,
			"its writer had read up to %d, which is not between message %d, its trigger, and itself",
			e.Seen,
			e.Trigger,
		)
	}
}

// answer checks what the model has answered, or the word that it has not.
func (c *Checker) answer(n *node, e run.Entry, m Message) {
	what := "an answer"
	if e.Kind == run.EntryTurn {
		what = "a turn"
		if late := c.late(n, m.Time); late > 0 {
			c.note(
				n,
				m.Seq,
				Deadline,
				"a turn stored %s after the deadline: the model was slow to end, or the server to store",
				late,
			)
		}
	}
	// before the call it need not have read: for that there is Tombs
	if n.cancel > n.call && e.Seen >= n.cancel {
		c.violate(n, m.Seq, AfterEnd, "%s whose writer had read the run's cancellation, message %d", what, n.cancel)
	}
	if at := n.stopped(e.CancelsSeen); at != 0 {
		c.violate(
			n,
			m.Seq,
			Tombstone,
			"the model was asked by a worker that knew of the cancellation in message %d",
			at,
		)
	}
	if waits := n.waits(); waits != "" {
		c.violate(n, m.Seq, FanOut, "%s while %s", what, waits)
		n.broken, n.hasty = true, true
	}
	c.sent(n, m)
}

// entryAfterEnd reports whether an entry was stored after the run's end. The
// log's own end fences every writer. An outcome does not fence the log: of two
// workers that hold one run after a redelivery, one may store an outcome and
// the other one an entry, upon which it finds the outcome and does nothing
// more.
func (c *Checker) entryAfterEnd(n *node, e run.Entry, m Message) bool {
	switch {
	case n.logEnd != 0:
		c.violate(n, m.Seq, AfterEnd, "a log entry after the one that ended the run, message %d", n.logEnd)
	case n.end == nil:
		return false
	case c.name(e.Worker) != n.end.worker && e.Trigger < n.end.seq && m.Fenced && m.Fence == n.state.LogSeq:
		c.note(
			n,
			m.Seq,
			AfterEnd,
			"a log entry after the run's outcome, message %d, by another worker, without effect",
			n.end.seq,
		)
	default:
		c.violate(n, m.Seq, AfterEnd, "a log entry after the run's outcome, message %d", n.end.seq)
	}
	return true
}

// late is how much later than the run's deadline a moment is, beyond the slack;
// 0 if it is not.
func (c *Checker) late(n *node, at time.Time) time.Duration {
	if n.deadline.IsZero() || !at.After(n.deadline.Add(c.cfg.Slack)) {
		return 0
	}
	return at.Sub(n.deadline)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
