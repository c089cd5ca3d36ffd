package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// TestRefundCountsOnceAfterACrash: a turn wants three runs. Its inner budget
// has room for them, and the outer budget for one. Two are refunded to the
// inner budget, and the worker dies before it appends the turn. Its successor
// does not refund them again.
func TestRefundCountsOnceAfterACrash(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"mid"}, withBudget(subjects.Budget{Agents: 3})),
			define("mid", []string{"leaf"}, withBudget(subjects.Budget{Agents: 5})), define("leaf", nil),
		}
		h.models["lead"] = turns(splitsTask("mid", 1), joinsResults)
		h.models["mid"] = turns(splitsTask("leaf", 3), joinsResults)
		h.models["leaf"] = repeats
		victim := h.startWorker("victim", workerOptions{atStep: killAfterTallyWrites(2, ".r-1-0")})
		h.awaitReady()
		r := h.submit("lead", "L")
		<-victim.ended
		h.startWorker("successor", workerOptions{})
		if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted || h.countRuns(r) != 3 {
			t.Errorf("%s %q, %d runs, want completed and 3 runs", o.Status, o.Error, h.countRuns(r))
		}
		mid, err := subjects.ParsePath("r-1-0")
		if err != nil {
			t.Fatal(err)
		}
		var counted []int
		for _, m := range h.readAll(r.Space.Tally(r.Tree, mid)) {
			counted = append(counted, budget.Decode(m.Body).Agents)
		}
		if counted[len(counted)-1] != 1 {
			t.Errorf("the tally of a run that called one other counted %d, want 1 at the end", counted)
		}
	})
}
