package verify

import (
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// addScopes keeps the scopes that a call is in. Of two budgets of one run the
// narrower bounds hold.
func (t *tree) addScopes(scopes []subjects.Scope) {
	for _, s := range scopes {
		if t.budgets == nil {
			t.budgets = map[subjects.Path]subjects.Budget{}
		}
		t.budgets[s.Path] = t.budgets[s.Path].Within(s.Budget)
	}
}

// checkBudgets looks for subtrees that are beyond their budgets. A model call
// without an answer leaves no message, so there may have been more calls than
// are counted here, and never fewer. Tokens are not checked, since calls in
// flight may go beyond their bound.
func (c *Checker) checkBudgets(t *tree) {
	for path, budget := range t.budgets {
		top := t.calledAt(path)
		if top == nil {
			continue
		}
		runs := 0
		turns := 0
		toolRuns := 0
		for _, n := range t.runs {
			switch {
			case n.call == 0 || !path.Covers(n.path):
			case n.state.Input.Tool != nil:
				toolRuns++
			default:
				runs++
				turns += n.modelCalls()
			}
		}
		if budget.Agents > 0 && runs > budget.Agents {
			c.violate(top.at(top.call), Limits, "%d runs, of %d that there may be", runs, budget.Agents)
		}
		if budget.Turns > 0 && turns > budget.Turns {
			c.violate(top.at(top.call), Limits, "%d model calls, of %d that there may be", turns, budget.Turns)
		}
		if budget.ToolCalls > 0 && toolRuns > budget.ToolCalls {
			c.violate(top.at(top.call), Limits, "%d tool runs, of %d that there may be", toolRuns, budget.ToolCalls)
		}
	}
}

// modelCalls returns the number of a run's model calls that had an answer: the
// answers on its log, and the one in its outcome unless the log has that too.
// An entry with an End may have been written without a model call: a person
// interrupted the run, or it reached a bound. One with a cut answer was not.
func (n *node) modelCalls() (calls int) {
	final := false
	for _, t := range n.state.Turns {
		final = t.Entry.Kind == run.EntryFinal
		if t.Entry.End == nil || t.Entry.Answer != nil && t.Entry.Answer.Truncated() {
			calls++
		}
	}
	if n.end != nil && n.end.status == run.StatusCompleted && !final {
		calls++
	}
	return calls
}
