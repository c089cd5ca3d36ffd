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

func withBudget(b subjects.Budget) func(*configs.Agent) {
	return func(a *configs.Agent) { a.Budget = b }
}

// serveSelfCaller starts three workers with the agent "more". In each of its
// first turns, up to the turn last, a run of it calls the agent eight times.
func serveSelfCaller(h *harness, last int, b subjects.Budget) {
	h.agents = []configs.Agent{define("more", []string{"more"}, withBudget(b))}
	h.models["more"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		if req.turn > last {
			return says("enough")(ctx, req)
		}
		return delayed(time.Second, splitsTask("more", 8))(ctx, req)
	}
	for i := range 3 {
		h.startWorker(fmt.Sprintf("w%d", i), workerOptions{})
	}
	h.awaitReady()
}

// countRuns returns the number of runs of a tree, tool runs excluded.
func (h *harness) countRuns(r subjects.Run) (n int) {
	for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
		if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call {
			n++
		}
	}
	return n
}

// TestMaxAgents: a tree whose runs call eight more in each turn gets exactly as
// many runs as the budget has room for, on three workers. The calls beyond are
// refused, and the caller goes on.
func TestMaxAgents(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		serveSelfCaller(h, 3, subjects.Budget{Agents: 100})
		r := h.submit("more", "L")
		o := h.expectCompleted(r, "enough")
		if n := h.countRuns(r); n != 100 || o.Subtree.Runs != 100 {
			t.Errorf("%d runs, and the outcome says %d; want 100 of both", n, o.Subtree.Runs)
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

// TestMaxTurns: a tree makes exactly as many model calls as its budget has
// turns. The outcome has the partial result.
func TestMaxTurns(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		serveSelfCaller(h, 50, subjects.Budget{Turns: 77})
		r := h.submit("more", "L")
		h.expectFailed(r, run.KindBudget, "budget exceeded: used 77 of 77 turns")
		if n := len(h.requests("")); n != 77 {
			t.Errorf("%d requests, want 77", n)
		}
		if o := h.outcomes(r.Space.Result(r.Agent, r.Tree))[0]; o.Partial == nil || o.Partial.Text != "calling" {
			t.Errorf("partial result %+v, want the text \"calling\"", o.Partial)
		}
	})
}

// TestMaxTokens: a request that needs more tokens than are left is not made.
// Fifty runs together use no more than the budget, and nearly all of it.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const (
			runs    = 50
			perTurn = 11 // tokens
			// It has room for the lead's turn, which uses 110
			// tokens, and for 67 turns of the 50 runs.
			maxTokens = 850
			// A later turn of a run is estimated at 28 tokens of
			// input. With fewer tokens left, no request is made.
			maxUnused = 5 * perTurn
		)
		h.agents = []configs.Agent{
			define("lead", []string{"busy"}, withBudget(subjects.Budget{Tokens: maxTokens})),
			define("busy", []string{"no"}, func(a *configs.Agent) { a.Params.MaxTokens = 1 }),
		}
		var cs []provider.ToolCall
		for i := range runs {
			cs = append(cs, call("busy", strconv.Itoa(i)))
		}
		h.models["lead"] = turns(calls(cs...), joinsResults)
		h.models["busy"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			// Requests that begin together do not end together: a
			// request takes longer with a longer task, and with
			// each turn.
			time.Sleep(time.Duration(len(req.text())*req.turn) * 100 * time.Millisecond)
			resp, err := calls(call("no", "x"))(ctx, req)
			resp.Usage = provider.Usage{InputTokens: perTurn - 1, OutputTokens: 1}
			return resp, err
		}
		h.startWorker("w0", workerOptions{})
		h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		o := h.awaitOutcome(r, time.Hour)
		used := o.Subtree.InputTokens + o.Subtree.OutputTokens
		if o.Kind != run.KindBudget ||
			!strings.HasPrefix(o.Error, fmt.Sprintf("budget exceeded: used %d of %d tokens", used, maxTokens)) {
			t.Errorf("outcome %s %q, want a failure that says: used %d of %d tokens", o.Kind, o.Error, used, maxTokens)
		}
		if used < maxTokens-maxUnused || used > maxTokens {
			t.Errorf("%d runs used %d tokens, want %d to %d", runs, used, maxTokens-maxUnused, maxTokens)
		}
		for i := range runs {
			if got := h.outcomes(r.Reply(1, i)); len(got) != 1 || got[0].Kind != run.KindBudget {
				t.Errorf("run %d: outcomes %+v, want one of kind %s", i, got, run.KindBudget)
			}
		}
	})
}

// TestBudgetsOnlyNarrow: a budget bounds a run and all runs below it. The
// budget of a callee can only narrow that of its caller, and the budget of a
// submission can only narrow that of its agent. Without a budget the tree has a
// lead, 3 mids and 9 leaves.
func TestBudgetsOnlyNarrow(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, test := range map[string]struct {
		lead, mid subjects.Budget
		submitted string
		runs      int
	}{
		"no budget":                {runs: 1 + 3 + 9},
		"root has one":             {lead: subjects.Budget{Agents: 5}, runs: 5},
		"callees have one":         {mid: subjects.Budget{Agents: 2}, runs: 1 + 3 + 3},
		"root and callees":         {lead: subjects.Budget{Agents: 6}, mid: subjects.Budget{Agents: 2}, runs: 6},
		"callees have a wider one": {lead: subjects.Budget{Agents: 6}, mid: subjects.Budget{Agents: 200}, runs: 6},
		"submission narrows":       {lead: subjects.Budget{Agents: 6}, submitted: "r agents=4", runs: 4},
		"submission cannot widen":  {lead: subjects.Budget{Agents: 6}, submitted: "r agents=400 turns=999", runs: 6},
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
					t.Errorf("%s %q: %d runs, want completed and %d\n%s",
						o.Status, o.Error, h.countRuns(r), test.runs, h.dumpTree(r.Tree))
				}
			})
		})
	}
}

// TestMalformedBudgetIsRefused: a submission is refused if its budget cannot be
// parsed.
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
				`want agents=N, turns=N, tokens=N or tool_calls=N, each once, with N from 1 to 999999999`,
		)
	})
}

// TestBudgetAfterACrash kills a worker at each of its steps, in a tree that
// needs all seven runs of its budget. The successor counts no run twice, so the
// tree completes. Without -rapid.checks it takes one step in 16.
func TestBudgetAfterACrash(t *testing.T) {
	t.Parallel()
	thorough(t)
	killAtEachStep(t, levels(3, withBudget(subjects.Budget{Agents: 7, Turns: 30, Tokens: 1000})), 16)
}

// TestTallyOfATree: a tally counts agents, turns and tokens. A test of package
// bus shows that a change counts once even if its acknowledgement is lost.
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
		const (
			agents = 5              // the leaves, without the lead
			turns  = 2 + 5          // two of the lead, one of each leaf
			tokens = 110 + (1+5)*11 // a turn with calls, and six answers
		)
		if last.Agents != agents || last.Turns != turns || last.Tokens != tokens {
			t.Errorf("tally %+v, want %d agents, %d turns, %d tokens", last, agents, turns, tokens)
		}
	})
}

// TestUncountedCallIsNotMade: the bus refuses the writes to a tally, so a model
// call cannot be counted. The worker does not make the call, and the run does
// not fail. It completes when the bus stores the tally again.
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
			t.Errorf("%d requests while no tally could be written, want none", n)
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
			t.Errorf("%d requests of a cancelled run, want none", n)
		}
	})
}

// killAfterTallyWrites returns an atStep. It counts the writes to the tallies
// whose subjects end with suffix, and kills the worker that makes the n-th one.
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
