package verify

import (
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// bounded notes the bounds that a call is under. Of two for one run the
// narrower ones hold.
func (t *tree) bounded(scopes []subjects.Scope) {
	for _, s := range scopes {
		if t.bounds == nil {
			t.bounds = map[subjects.Path]subjects.Budget{}
		}
		t.bounds[s.Path] = t.bounds[s.Path].Within(s.Budget)
	}
}

// unbounded looks for subtrees that have passed their bounds. A model call that
// came to nothing leaves no message, so there may have been more than are
// counted here, and never fewer. (Tokens may be overspent by the calls in
// flight, so that there is nothing to hold them to.)
func (c *Checker) unbounded(t *tree) {
	for path, bound := range t.bounds {
		runs, turns := 0, 0
		var top *node
		for _, n := range t.runs {
			if n.call == 0 || !path.Covers(n.path) {
				continue
			}
			if n.path == path {
				top = n
			}
			runs++
			turns += n.asked()
		}
		if top == nil {
			continue
		}
		if bound.Agents > 0 && runs > bound.Agents {
			c.violate(top, top.call, Limits, "%d runs, of %d that there may be", runs, bound.Agents)
		}
		if bound.Turns > 0 && turns > bound.Turns {
			c.violate(top, top.call, Limits, "%d model calls, of %d that there may be", turns, bound.Turns)
		}
	}
}

// asked counts the model calls of a run that led to something: the answers on
// its log, and the one that is its outcome, unless that is on the log too. An
// entry that says why there is no answer (a person has stopped the run, a bound
// was reached) may have been written without a call.
func (n *node) asked() (turns int) {
	final := false
	for _, t := range n.state.Turns {
		final = t.Entry.Kind == run.EntryFinal
		if t.Entry.End == nil {
			turns++
		}
	}
	if n.end != nil && n.end.status == run.StatusCompleted && !final {
		turns++
	}
	return turns
}
