package verify

import (
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Report is what was found, and what is missing at a moment. The moment should
// be from before the last messages were read: what was stored since then and
// not read would be missed otherwise.
func (c *Checker) Report(now time.Time) Report {
	r := Report{Messages: c.messages, Findings: []Finding{}} // never null
	cut := map[string]bool{}
	rest := &Checker{cfg: c.cfg, names: c.names}
	for _, t := range c.trees {
		if t.cut(c.cfg.first(t.id)) {
			cut[t.id.String()] = true
			r.Findings = append(r.Findings, Finding{
				Severity: Note, Rule: Foreign, Tree: t.id.String(),
				Text: "not checked: its beginning is not on the stream any more",
			})
			continue
		}
		rest.missing(t, now, &r)
	}
	for _, f := range append(c.remarks[:len(c.remarks):len(c.remarks)], rest.remarks...) {
		if !cut[f.Tree] && (f.rests == nil || !f.rests.broken) {
			r.Findings = append(r.Findings, f.Finding)
		}
	}
	inOrder(r.Findings)
	return r
}

// cut reports whether the stream may have forgotten a tree's beginning.
func (t *tree) cut(first uint64) bool {
	if first <= 1 {
		return false
	}
	for at, n := range t.runs {
		if at.path == subjects.Root && (n.call != 0 || n.end != nil && n.end.status == run.StatusFailed) {
			return false
		}
	}
	return true
}

// missing looks for what a tree should have by now.
func (c *Checker) missing(t *tree, now time.Time, r *Report) {
	r.Trees++
	way := false
	for _, n := range t.runs {
		if n.call == 0 {
			continue
		}
		r.Runs++
		if n.bad != nil {
			c.refused(n)
			continue
		}
		if n.end == nil {
			way = c.unfinished(n, now) || way
		}
	}
	if way {
		r.UnderWay++
	}
	c.unbounded(t)
}

// refused tells of a call that cannot be run. A worker buries it, and answers
// for a root.
func (c *Checker) refused(n *node) {
	if n.buried || n.end != nil && n.end.status == run.StatusFailed {
		c.note(n, n.call, Header, "refused: %v", n.bad)
		return
	}
	c.violate(n, n.call, Header, "%v", n.bad)
}

// unfinished checks a run without an outcome, and reports whether it may still
// come to its end.
func (c *Checker) unfinished(n *node, now time.Time) bool {
	if c.timerLost(n, now) {
		at := n.state.Turns[len(n.state.Turns)-1].Entry.Timer
		c.violate(
			n,
			n.state.LogSeq,
			Deadline,
			"waits for calls of turn %d, whose timer was to fire at %s and did not",
			len(n.state.Turns),
			stamp(at),
		)
		return false
	}
	if c.late(n, now.Add(-c.cfg.Takeover)) == 0 {
		c.unpublished(n, now)
		return true
	}
	by, waits := n.above()
	switch {
	case by != nil && (by.hasty || waits && c.timerLost(by, now)): // told of the caller
	case !waits && !n.path.IsRoot() && n.state.LogIndex == 0:
		c.note(n, n.call, Outcome, "no outcome: nobody has taken the call, and its caller has gone on without it")
	default:
		c.violate(n, n.call, Outcome, "lost: no outcome, and the deadline was %s", stamp(n.deadline))
	}
	return false
}

// above is the run that has called n, and whether it waits for its outcome.
func (n *node) above() (by *node, waits bool) {
	path, turn, index, below := n.path.Parent()
	if !below {
		return nil, false
	}
	for at, up := range n.tree.runs {
		if at.path != path || up.call == 0 {
			continue
		}
		by = up
		if up.state.Phase == run.Awaiting && turn == len(up.state.Turns) {
			o := up.state.Turns[turn-1].Outcomes
			return up, index < len(o) && o[index] == nil
		}
	}
	return by, false
}

// timerLost reports whether a run still waits though its timer should have
// fired.
func (c *Checker) timerLost(n *node, now time.Time) bool {
	if n.broken || n.overdue || n.end != nil || n.state.Phase != run.Awaiting {
		return false
	}
	at := n.state.Turns[len(n.state.Turns)-1].Entry.Timer
	return now.After(at.Add(c.cfg.Slack + c.cfg.Takeover))
}

// unpublished tells of calls that somebody has yet to publish.
func (c *Checker) unpublished(n *node, now time.Time) {
	if n.broken || n.state.Phase != run.Awaiting || !now.After(n.moved.Add(c.cfg.Slack)) {
		return
	}
	for _, child := range n.unpublished() {
		c.note(
			n,
			n.state.LogSeq,
			FanOut,
			"call %d of turn %d, of %s, was not published yet",
			child.Index,
			len(n.state.Turns),
			child.Call.Agent,
		)
	}
}
