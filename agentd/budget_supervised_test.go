package agentd_test

import (
	"slices"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// supervisedWithBudget makes a lead with a leaf and a supervisor that gives its
// verdicts one after the other, and starts a worker. The budget of the tree is
// the given number of runs, the lead included.
func (h *harness) supervisedWithBudget(agents int, verdicts ...string) {
	h.supervisedLead(configs.Supervised, verdicts...)
	h.agents[0].Budget = subjects.Budget{Agents: agents}
	h.workers[0].serve(h.agents...)
	h.awaitReady()
}

// countedRuns returns the number of runs below the root that the tree's tally
// has counted; 0 without a tally.
func (h *harness) countedRuns(r subjects.Run) int {
	ms := h.readAll(r.Space.Tally(r.Tree, subjects.Root))
	if len(ms) == 0 {
		return 0
	}
	return budget.Decode(ms[len(ms)-1].Body).Agents
}

// TestSupervisorIsCountedFirst: a turn gets room in the budget for its
// supervisor first, and then for its calls. If there is no room for any of the
// calls, the supervisor is not asked, and the grant for its run is refunded.
func TestSupervisorIsCountedFirst(t *testing.T) {
	t.Parallel()
	const full = "=call_agent error: budget exceeded: used "
	for name, test := range map[string]struct {
		agents, reviews int
		want            string
	}{
		"room for both calls":     {4, 1, "c0=leaf|c1=leaf"},
		"room for one call":       {3, 1, "c0=leaf|c1" + full + "3 of 3 agents"},
		"room for the supervisor": {2, 0, "c0" + full + "2 of 2 agents|c1" + full + "2 of 2 agents"},
		"room for the lead alone": {1, 0, "c0" + full + "1 of 1 agents|c1" + full + "1 of 1 agents"},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.supervisedWithBudget(test.agents, `{"decision":"continue"}`)
				r := h.submit("lead", "go")
				h.expectCompleted(r, test.want)
				if n := len(h.requests("watcher")); n != test.reviews {
					t.Errorf("the supervisor was asked %d times, want %d", n, test.reviews)
				}
				if n := h.countedRuns(r); n != h.countRuns(r)-1 {
					t.Errorf("%d runs are counted below the root, want %d", n, h.countRuns(r)-1)
				}
				h.checkVerified()
			})
		})
	}
}

// TestWithheldGrantIsRefunded: the runs that a withheld turn was granted are
// refunded, so that the next turn may start as many. The supervisor's run stays
// counted. The refund counts once, though the worker dies after it.
func TestWithheldGrantIsRefunded(t *testing.T) {
	t.Parallel()
	thorough(t)
	const (
		goOn     = `{"decision":"continue"}`
		reorient = `{"decision":"reorient","correction":"ask nicely"}`
		both     = "c0=leaf|c1=leaf"
		one      = "c0=leaf|c1=call_agent error: budget exceeded: used 4 of 4 agents"
	)
	for name, test := range map[string]struct {
		mode     configs.SupervisionMode
		agents   int
		verdicts []string
		want     string
		dies     bool // the worker, after the refund
	}{
		"by a verdict":             {configs.Supervised, 5, []string{reorient, goOn}, both, false},
		"without a verdict, twice": {configs.Supervised, 6, []string{"hm", "hm", goOn}, both, false},
		"after a person's timeout": {configs.SupervisedHuman, 5, []string{`{"decision":"pause"}`, goOn}, both, false},
		"room for one call":        {configs.Supervised, 4, []string{reorient, goOn}, one, false},
		"refunded before a crash":  {configs.Supervised, 4, []string{reorient, goOn}, one, true},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.supervisedWithBudget(test.agents, test.verdicts...)
				h.agents[0].Supervision.Mode = test.mode
				h.agents[0].Supervision.Timeout = time.Minute
				ask := calls(call("leaf", "x"), call("leaf", "y"))
				asks := slices.Repeat([]scriptedModel{ask}, len(test.verdicts))
				h.models["lead"] = turns(append(asks, joinsResults)...)
				h.workers[0].drain()
				var options workerOptions
				if test.dies {
					// The first write of the tally grants,
					// and the second one refunds.
					options.atStep = killAfterTallyWrites(2, "")
				}
				victim := h.startWorker("victim", options)
				h.awaitReady()
				r := h.submit("lead", "go")
				if test.dies {
					<-victim.ended
					h.startWorker("successor", workerOptions{})
				}
				time.Sleep(2 * time.Minute)
				h.expectCompleted(r, test.want)
				if n := h.countedRuns(r); n != h.countRuns(r)-1 {
					t.Errorf("%d runs are counted below the root, want %d", n, h.countRuns(r)-1)
				}
				h.checkVerified()
			})
		})
	}
}
