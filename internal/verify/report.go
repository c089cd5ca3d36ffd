package verify

import (
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Report returns the findings, with the messages that are missing at a moment.
// The moment should lie before the read of the last messages: otherwise a
// message that was stored after the read counts as missing.
func (c *Checker) Report(now time.Time) Report {
	r := Report{Messages: c.messages, Findings: []Finding{}} // never null
	r.WastedRequests, r.WastedMS = c.wasted, c.wastedMS
	forgotten := map[string]bool{}
	rest := &Checker{cfg: c.cfg}
	for _, t := range c.trees {
		if t.forgotten(c.cfg.first(t.id)) {
			forgotten[t.id.String()] = true
			r.Findings = append(r.Findings, c.beginningGone(t))
			continue
		}
		rest.checkEnd(t, now, &r)
	}
	for _, f := range append(c.remarks[:len(c.remarks):len(c.remarks)], rest.remarks...) {
		if !forgotten[f.Tree] && (f.basis == nil || !f.basis.broken) {
			r.Findings = append(r.Findings, f.Finding)
		}
	}
	sortFindings(r.Findings)
	slices.Sort(r.UnderWayTrees)
	r.UnderWay = len(r.UnderWayTrees)
	r.UnderWayTrees = r.UnderWayTrees[:min(r.UnderWay, MaxUnderWayTrees)]
	return r
}

// minLongest is the least value of the longest time that a tree may take: the
// workers' default.
const minLongest = time.Hour

// beginningGone is the finding about a tree that is not checked. It is a
// violation if the missing messages were too young to be dropped for their age.
func (c *Checker) beginningGone(t *tree) Finding {
	began := t.oldest.Add(-max(c.longest, minLongest))
	if aged, ok := c.cfg.aged(t.id); ok && began.After(aged) {
		const text = "lost by removal: its beginning was removed from the stream before its age"
		return Finding{Severity: Violation, Rule: Stream, Tree: t.id.String(), Text: text}
	}
	const text = "not checked: its beginning is not on the stream any more"
	return Finding{Severity: Note, Rule: Foreign, Tree: t.id.String(), Text: text}
}

// forgotten reports whether the stream may have forgotten a tree's beginning.
func (t *tree) forgotten(first uint64) bool {
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

// checkEnd looks for the messages that a tree should have by now.
func (c *Checker) checkEnd(t *tree, now time.Time, r *Report) {
	r.Trees++
	underWay := false
	for _, n := range t.runs {
		if n.call == 0 {
			continue
		}
		r.Runs++
		if n.callErr != nil {
			c.refused(n)
			continue
		}
		if n.end == nil {
			underWay = c.unfinished(n, now) || underWay
		}
	}
	if underWay {
		r.UnderWayTrees = append(r.UnderWayTrees, t.id.String())
	}
	c.checkBudgets(t)
}

// refused reports a call that cannot be carried out. A worker makes it a dead
// letter, and stores an outcome if it is a root's.
func (c *Checker) refused(n *node) {
	if n.deadLetter || n.end != nil && n.end.status == run.StatusFailed {
		c.note(n.at(n.call), Header, "refused: %v", n.callErr)
		return
	}
	c.violate(n.at(n.call), Header, "%v", n.callErr)
}

// unfinished checks a run without an outcome, and reports whether it may still
// end.
func (c *Checker) unfinished(n *node, now time.Time) bool {
	if c.timerLost(n, now) {
		const text = "waits for calls of turn %d, whose timer was to fire at %s and did not"
		last := len(n.state.Turns)
		c.violate(n.at(n.state.LogSeq), Deadline, text, last, stamp(n.state.Turns[last-1].Entry.Timer))
		return false
	}
	if c.late(n, now.Add(-c.cfg.Takeover)) == 0 {
		c.noteUnpublished(n, now)
		return true
	}
	switch waits := n.awaited(); {
	case n.parent != nil && n.parent.skippedWait, waits && c.timerLost(n.parent, now):
		// The finding of the caller says it all.
	case !waits && !n.path.IsRoot() && n.state.LogIndex == 0:
		const text = "no outcome: no worker has taken the call, and its caller has gone on without it"
		c.note(n.at(n.call), Outcome, text)
	default:
		c.violate(n.at(n.call), Outcome, "lost: no outcome, and the deadline was %s", stamp(n.deadline))
	}
	return false
}

// awaited reports whether the run that has called n waits for n's outcome.
func (n *node) awaited() bool {
	by := n.parent
	_, turn, index, _ := n.path.Parent()
	if by == nil || by.state.Phase != run.Awaiting || turn != len(by.state.Turns) {
		return false
	}
	o := by.state.Turns[turn-1].Outcomes
	return index < len(o) && o[index] == nil
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

// noteUnpublished reports calls that a worker has yet to publish.
func (c *Checker) noteUnpublished(n *node, now time.Time) {
	if n.broken || n.state.Phase != run.Awaiting || !now.After(n.movedAt.Add(c.cfg.Slack)) {
		return
	}
	for _, child := range n.unpublished() {
		const text = "call %d of turn %d, of %s, was not published yet"
		c.note(n.at(n.state.LogSeq), FanOut, text, child.Index, len(n.state.Turns), child.Call.Agent)
	}
}
