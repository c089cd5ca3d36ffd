package agentd_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// usesTokens answers with the task after 10 s. Its usage is the given numbers
// of tokens.
func usesTokens(input, output int) scriptedModel {
	return delayed(10*time.Second, func(_ context.Context, req *modelRequest) (*provider.Response, error) {
		usage := provider.Usage{InputTokens: input, OutputTokens: output}
		return &provider.Response{Content: req.task(), Usage: usage}, nil
	})
}

// leadWithTokens makes a lead with a budget of tokens that calls an agent n
// times at once.
func (h *harness) leadWithTokens(tokens, n int, called configs.Agent) {
	h.agents = []configs.Agent{
		define("lead", []string{called.Name}, withBudget(subjects.Budget{Tokens: tokens})), called,
	}
	h.models["lead"] = turns(splitsTask(called.Name, n), joinsResults)
}

// lastTally returns the newest tally of the scope of a run.
func (h *harness) lastTally(r subjects.Run) budget.Tally {
	ms := h.readAll(r.Space.Tally(r.Tree, r.Path))
	return budget.Decode(ms[len(ms)-1].Body)
}

// expectNothingReserved checks that the scope of a run has no reservations any
// more.
func (h *harness) expectNothingReserved(r subjects.Run) {
	if t := h.lastTally(r); len(t.Reserved) > 0 {
		h.tb.Errorf("the tally has the reservations %+v, want none", t.Reserved)
	}
}

// TestMaxTokensOfWideReaders: nine readers begin at once. The model counts
// 21,700 tokens of input for each, and the workers' estimate is about a twelfth
// lower. The model is asked for as many readers as the budget has room for, and
// no more.
func TestMaxTokensOfWideReaders(t *testing.T) {
	thorough(t)
	t.Parallel()
	const readers, input, output = 9, 21_700, 26
	for _, test := range []struct{ tokens, asked int }{{2000, 0}, {50_000, 2}, {100_000, 4}, {200_000, readers}} {
		t.Run(strconv.Itoa(test.tokens), func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.leadWithTokens(test.tokens, readers, define("reader", nil, func(a *configs.Agent) {
					a.SystemPrompt = strings.Repeat("text", 20_000)
				}))
				h.models["reader"] = usesTokens(input, output)
				h.startWorkers(2, workerOptions{})
				r := h.submit("lead", "go")
				o := h.awaitOutcome(r, time.Hour)
				used := o.Subtree.InputTokens + o.Subtree.OutputTokens
				asked := len(h.requests("reader"))
				t.Logf("%d readers were asked: used %d of %d tokens, %.2f times the budget",
					asked, used, test.tokens, float64(used)/float64(test.tokens))
				if asked != test.asked || used > test.tokens || o.Status != run.StatusCompleted {
					t.Errorf("%d readers were asked and used %d tokens, outcome %s %q; "+
						"want %d readers, at most %d tokens, and completed",
						asked, used, o.Status, o.Error, test.asked, test.tokens)
				}
				refusals := strings.Count(o.Result, "and the next request needs about 200")
				if refusals != readers-test.asked {
					t.Errorf("%d readers were refused, want %d: %s", refusals, readers-test.asked, o.Result)
				}
				h.expectNothingReserved(r)
				h.checkVerified()
			})
		})
	}
}

// TestRequestsWaitForRoom: five leaves make short requests that may have long
// answers, and the budget has room for one long answer. Two workers make the
// requests one after the other. The runs that wait publish their progress, and
// leave their slots to other trees.
func TestRequestsWaitForRoom(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.leadWithTokens(10_000, 5, define("leaf", nil, func(a *configs.Agent) { a.Params.MaxTokens = 8192 }))
		h.models["leaf"] = usesTokens(100, 50)
		h.agents = append(h.agents, define("other", nil))
		h.startWorkers(2, workerOptions{Config: agentd.Config{Slots: 2}})
		r := h.root("lead")
		progress := h.subscribe(r.Space.PartsOf(r.Tree))
		h.submitTo(r, "L")
		h.awaitRequests("leaf", 1)
		time.Sleep(5 * time.Second)
		from := time.Now()
		h.expectCompleted(h.submit("other", "x"), "other")
		h.tookAtMost(from, time.Second)
		h.expectCompleted(r, "c0=L.0|c1=L.1|c2=L.2|c3=L.3|c4=L.4")
		if n := peakConcurrency(h.requests("leaf")); n != 1 {
			t.Errorf("%d requests at once, want 1", n)
		}
		// No time is lost between two requests.
		h.tookAtMost(h.requests("leaf")[0].began, 52*time.Second)
		waiting := 0
		for _, m := range progress() {
			if strings.Contains(string(m.Body), `"event":"waiting"`) && strings.Contains(string(m.Body), `"budget"`) {
				waiting++
			}
		}
		if waiting != 4 {
			t.Errorf("%d progress messages of waiting runs, want 4", waiting)
		}
		h.expectNothingReserved(r)
	})
}

// TestReservationEnds: one of three runs has reserved most of a budget. However
// its request ends, the two runs that wait for room go on soon.
func TestReservationEnds(t *testing.T) {
	t.Parallel()
	thorough(t)
	slow := delayed(10*time.Minute, usesTokens(100, 50))
	dies := func(h *harness, _ subjects.Run, w *worker) {
		w.kill()
		h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 1}})
	}
	for name, test := range map[string]struct {
		// first is the model of the run with the reservation.
		first scriptedModel
		// happen ends the request of that run, unless its model does.
		happen func(h *harness, first subjects.Run, w *worker)
	}{
		"the model fails": {delayed(time.Second, fails(busy)), func(*harness, subjects.Run, *worker) {}},
		"the run is cancelled": {slow, func(h *harness, first subjects.Run, _ *worker) {
			h.publish(first.Cancel(), "")
		}},
		"its worker dies": {delayed(time.Minute, usesTokens(100, 50)), dies},
		"its worker drains": {slow, func(h *harness, _ subjects.Run, w *worker) {
			h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 1}})
			w.stop()
		}},
		"its worker dies and it is cancelled": {slow, func(h *harness, first subjects.Run, w *worker) {
			w.kill()
			h.publish(first.Cancel(), "")
			h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 1}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.leadWithTokens(10_000, 3, define("leaf", nil, func(a *configs.Agent) { a.Params.MaxTokens = 8192 }))
				h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
					if len(h.requests("leaf")) == 1 {
						return test.first(ctx, req)
					}
					return usesTokens(100, 50)(ctx, req)
				}
				w := h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 8}})
				h.awaitReady()
				r := h.submit("lead", "L")
				h.awaitRequests("leaf", 1)
				time.Sleep(5 * time.Second)
				from := time.Now()
				test.happen(h, h.leafOf(r, h.requests("leaf")[0].task()), w)
				if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted {
					t.Errorf("outcome %s %q, want completed", o.Status, o.Error)
				}
				// A lease and a usual request take 10 s each,
				// and a slow request ten minutes.
				h.tookAtMost(from, 3*time.Minute)
				h.expectNothingReserved(r)
				h.checkVerified()
			})
		})
	}
}

// leafOf returns the leaf that the lead's first turn called with the given
// task, "L." and the index of the call.
func (h *harness) leafOf(lead subjects.Run, task string) subjects.Run {
	index := strings.TrimPrefix(task, "L.")
	path, err := subjects.ParsePath("r-1-" + index)
	if err != nil {
		h.tb.Fatal(err)
	}
	agent, err := subjects.ParseAgent("leaf")
	if err != nil {
		h.tb.Fatal(err)
	}
	return lead.Space.Run(agent, lead.Tree, path)
}
