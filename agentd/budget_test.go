package agentd_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

func withBudget(l subjects.Budget) func(*configs.Agent) {
	return func(a *configs.Agent) { a.Budget = l }
}

// delegatesForever calls itself eight times in each of its first turns.
func delegatesForever(h *harness, turns int, l subjects.Budget) {
	h.agents = []configs.Agent{define("more", []string{"more"}, withBudget(l))}
	h.models["more"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		if req.turn > turns {
			return says("enough")(ctx, req)
		}
		return delayed(time.Second, splitsTask("more", 8))(ctx, req)
	}
	for i := range 3 {
		h.startWorker(fmt.Sprintf("w%d", i), workerOptions{})
	}
	h.awaitReady()
}

// countRuns counts the calls of a tree.
func (h *harness) countRuns(r subjects.Run) (n int) {
	for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
		if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call {
			n++
		}
	}
	return n
}

// TestMaxAgents: a model that always asks for eight more runs gets exactly as
// many as the budget has room for, on any number of workers. The calls beyond
// are refused, and the run goes on.
func TestMaxAgents(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		delegatesForever(h, 3, subjects.Budget{Agents: 100})
		r := h.submit("more", "L")
		o := h.expectCompleted(r, "enough")
		if n := h.countRuns(r); n != 100 || o.Subtree.Runs != 100 {
			t.Errorf("%d runs, the outcome says %d", n, o.Subtree.Runs)
		}
		refused := 0
		for _, a := range h.requests("") {
			for _, res := range a.results() {
				if res.Content == "call_agent error: budget exceeded: used 100 of 100 agents" && res.IsError {
					refused++
				}
			}
		}
		if refused == 0 {
			t.Error("no run was told that the budget has no room")
		}
	})
}

// TestMaxTurns: a tree makes as many model calls as its budget has, and not one
// more. The outcome has the partial result.
func TestMaxTurns(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		delegatesForever(h, 50, subjects.Budget{Turns: 77})
		r := h.submit("more", "L")
		h.expectFailed(r, run.KindBudget, "budget exceeded: used 77 of 77 turns")
		if n := len(h.requests("")); n != 77 {
			t.Errorf("%d requests", n)
		}
		if o := h.outcomes(r.Space.Result(r.Agent, r.Tree))[0]; o.Partial == nil || o.Partial.Text != "calling" {
			t.Errorf("partial %+v", o.Partial)
		}
	})
}

// TestMaxTokens: when the tokens that are left are fewer than a request needs,
// it is not made. Fifty runs together use no more than the budget.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const atWork, each, budget = 50, 11, 50*11 + 300
		h.agents = []configs.Agent{
			define("lead", []string{"busy"}, withBudget(subjects.Budget{Tokens: budget})),
			define("busy", []string{"no"}, func(a *configs.Agent) { a.Params.MaxTokens = 1 }),
		}
		var cs []provider.ToolCall
		for i := range atWork {
			cs = append(cs, call("busy", strconv.Itoa(i)))
		}
		h.models["lead"] = turns(calls(cs...), joinsResults)
		h.models["busy"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			time.Sleep(time.Duration(len(req.text())*req.turn) * 100 * time.Millisecond)
			resp, err := calls(call("no", "x"))(ctx, req)
			resp.Usage = provider.Usage{InputTokens: each - 1, OutputTokens: 1}
			return resp, err
		}
		h.startWorker("w0", workerOptions{})
		h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		o := h.awaitOutcome(r, time.Hour)
		spent := o.Subtree.InputTokens + o.Subtree.OutputTokens
		if o.Kind != run.KindBudget ||
			!strings.HasPrefix(o.Error, fmt.Sprintf("budget exceeded: used %d of %d tokens", spent, budget)) {
			t.Errorf("outcome %s %q, spent %d", o.Kind, o.Error, spent)
		}
		if spent < budget-5*each || spent > budget {
			t.Errorf("spent %d of %d, with %d of %d at work", spent, budget, atWork, each)
		}
		for i := range atWork {
			if got := h.outcomes(r.Reply(1, i)); len(got) != 1 || got[0].Kind != run.KindBudget {
				t.Errorf("run %d: %+v", i, got)
			}
		}
	})
}

// TestBudgetsOnlyNarrow: a caller's budget bounds the runs that it calls. A
// callee's own budget holds below it, and a submission's budget can only narrow
// the agent's.
func TestBudgetsOnlyNarrow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lead, mid subjects.Budget
		submitted string
		runs      int
	}{
		"none":                    {runs: 1 + 3 + 9},
		"of the root":             {lead: subjects.Budget{Agents: 5}, runs: 5},
		"of the callee":           {mid: subjects.Budget{Agents: 2}, runs: 1 + 3 + 3},
		"of both":                 {lead: subjects.Budget{Agents: 6}, mid: subjects.Budget{Agents: 2}, runs: 6},
		"wider below":             {lead: subjects.Budget{Agents: 6}, mid: subjects.Budget{Agents: 200}, runs: 6},
		"narrowed by a submitter": {lead: subjects.Budget{Agents: 6}, submitted: "r agents=4", runs: 4},
		"widened by a submitter":  {lead: subjects.Budget{Agents: 6}, submitted: "r agents=400 turns=999", runs: 6},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{
					define("lead", []string{"mid"}, withBudget(test.lead)),
					define("mid", []string{"leaf"}, withBudget(test.mid)),
					define("leaf", nil),
				}
				h.models["lead"] = turns(splitsTask("mid", 3), joinsResults)
				h.models["mid"] = turns(splitsTask("leaf", 3), joinsResults)
				h.models["leaf"] = repeats
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				r := h.root("lead")
				h.submitTo(r, "L", [2]string{subjects.HeaderLimits, test.submitted})
				if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted || h.countRuns(r) != test.runs {
					t.Errorf("%s %q: %d runs, want "+
						"%d\n%s", o.Status, o.Error, h.countRuns(r), test.runs, h.dumpTree(r.Tree))
				}
			})
		})
	}
}

// TestMalformedBudgetIsRefused: a budget that cannot be parsed refuses a
// submission.
func TestMalformedBudgetIsRefused(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.startWorker("w", workerOptions{})
		r := h.root("lead")
		h.submitTo(r, "L", [2]string{subjects.HeaderLimits, "r agents=-1"})
		h.expectFailed(
			r,
			run.KindError,
			`submission refused: Axe-Limits "agents=-1": malformed: `+
				`want agents=N, turns=N or tokens=N, each once, with N from 1 to 999999999`,
		)
	})
}

// TestBudgetAfterACrash: a worker is killed at one of its steps in a tree with
// a budget. The turn's use counts once, and the budget is not exceeded.
func TestBudgetAfterACrash(t *testing.T) {
	t.Parallel()
	killAtEachStep(t, levels(3, withBudget(subjects.Budget{Agents: 7, Turns: 30, Tokens: 1000})), 16)
}

// TestTallyOfATree: a tally counts agents, turns and tokens. Package bus tests
// that a change counts once though its acknowledgement is lost.
func TestTallyOfATree(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"leaf"}, withBudget(subjects.Budget{Agents: 50, Turns: 50, Tokens: 5000})),
			define("leaf", nil),
		}
		h.models["lead"] = turns(splitsTask("leaf", 5), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "L")
		h.awaitOutcome(r, time.Minute)
		ms := h.readAll(r.Space.Tally(r.Tree, subjects.Root))
		last := budget.Decode(ms[len(ms)-1].Body)
		if last.Agents != 5 || last.Turns != 7 || last.Tokens != 110+5*11+11 {
			t.Errorf("%+v", last)
		}
	})
}

// TestUncountedCallIsNotMade: a model call that cannot be counted is not made,
// and does not fail the run. It is tried again when its trigger is delivered
// again.
func TestUncountedCallIsNotMade(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withBudget(subjects.Budget{Turns: 5}))}
		var broken atomic.Bool
		broken.Store(true)
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if broken.Load() && s.Op == "write" && !s.After && strings.Contains(s.Subject, ".tally.") {
				return errBusBroken
			}
			return nil
		}})
		h.awaitReady()
		r := h.submit("lead", "go")
		time.Sleep(5 * time.Second)
		if n := len(h.requests("lead")); n != 0 {
			t.Errorf("%d requests that were not counted", n)
		}
		broken.Store(false)
		h.expectCompleted(r, "lead")
	})
}

// TestCancelWhileCounting: a run that is cancelled while the bus is slow to
// count its model call does not make the call.
func TestCancelWhileCounting(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withBudget(subjects.Budget{Turns: 5}))}
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && s.After && strings.Contains(s.Subject, ".tally.") {
				time.Sleep(time.Minute)
			}
			return nil
		}})
		h.awaitReady()
		r := h.submit("lead", "go")
		time.Sleep(5 * time.Second)
		h.publish(r.Cancel(), "")
		h.expectFailed(r, run.KindCancelled, "cancelled")
		if n := len(h.requests("lead")); n != 0 {
			t.Errorf("%d requests of a cancelled run", n)
		}
	})
}

// killAfterTallyWrites kills a worker after its n-th write of a tally with a
// subject that ends with suffix.
func killAfterTallyWrites(n int64, suffix string) func(s step) error {
	var writes atomic.Int64
	return func(s step) error {
		isTally := strings.Contains(s.Subject, "tally") && strings.HasSuffix(s.Subject, suffix)
		if s.Op == "write" && s.After && isTally && writes.Add(1) == n {
			s.worker.kill()
		}
		return nil
	}
}
