package agentd_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// withRetry gives an agent a number of attempts, 4 s apart.
func withRetry(attempts int) func(*configs.Agent) {
	return func(a *configs.Agent) {
		a.Retry = configs.Retry{MaxAttempts: attempts, Backoff: configs.Fixed, Initial: 4 * time.Second}
	}
}

// failsTimes fails n times and then answers like another model.
func failsTimes(n int, err error, then scriptedModel) scriptedModel {
	var failed atomic.Int64
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		if failed.Add(1) <= int64(n) {
			return nil, err
		}
		return then(ctx, req)
	}
}

// busy is the error of a provider that limits the rate of requests.
var busy = &provider.Error{Category: provider.RateLimit, Status: 429, Message: "slow down"}

// gapsBetween is the seconds between an agent's requests.
func (h *harness) gapsBetween(agent string) []float64 {
	gaps := []float64{}
	requests := h.requests(agent)
	for i := 1; i < len(requests); i++ {
		gaps = append(gaps, requests[i].began.Sub(requests[i-1].began).Round(100*time.Millisecond).Seconds())
	}
	return gaps
}

// TestRetry: a worker repeats a request that failed, as often as the agent's
// configuration says. It waits for the configured pause or, if that is longer,
// as long as the provider asks. It makes no attempt after the run's deadline.
func TestRetry(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) error {
		return &provider.Error{Category: provider.Overloaded, RetryAfter: d, Message: "later"}
	}
	denied := &provider.Error{Category: provider.Auth, Message: "who are you"}
	late := func(err error, pause string) string {
		return err.Error() + " (the next attempt would be in " + pause + ", after the run's deadline)"
	}
	none := []float64{}
	for name, test := range map[string]struct {
		attempts, failures int
		err                error
		deadline           time.Duration // 0: the worker's hour
		gaps               []float64
		want               string // the error; "": it answers
		retries            int
	}{
		"off by default":                   {0, 1, busy, 0, none, busy.Error(), 0},
		"one attempt is no retry":          {1, 1, busy, 0, none, busy.Error(), 0},
		"to success":                       {3, 2, busy, 0, []float64{4, 4}, "", 2},
		"until there are no attempts left": {3, 5, busy, 0, []float64{4, 4}, busy.Error(), 2},
		"a refused key is final":           {3, 1, denied, 0, none, denied.Error(), 0},
		"as the provider asks":             {3, 1, after(time.Minute), 0, []float64{60}, "", 1},
		"not less than configured":         {3, 1, after(time.Second), 0, []float64{4}, "", 1},
		"not beyond the deadline":          {3, 1, after(time.Hour), time.Minute, none, late(after(0), "1h0m0s"), 0},
		"while the deadline allows it":     {9, 9, busy, 10 * time.Second, []float64{4, 4}, late(busy, "4s"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("lead", nil, withRetry(test.attempts))}
				h.models["lead"] = failsTimes(test.failures, test.err, repeats)
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				r := h.root("lead")
				if test.deadline > 0 {
					h.submitTo(r, "go", due(time.Now().Add(test.deadline)))
				} else {
					h.submitTo(r, "go")
				}
				var o run.Outcome
				if test.want == "" {
					o = h.expectCompleted(r, "go")
				} else {
					o = h.awaitOutcome(r, time.Hour)
				}
				if o.Error != test.want || o.Retries != test.retries || o.Turns != 1 {
					t.Errorf("outcome %+v, want error %q after %d retries in one turn", o, test.want, test.retries)
				}
				if diff := cmp.Diff(test.gaps, h.gapsBetween("lead")); diff != "" {
					t.Errorf("seconds between the attempts:\n%s", diff)
				}
			})
		})
	}
}

// TestRetryCounts: the time of all attempts is model time, and the pauses
// between them are not. An entry counts its own turn, the outcome all turns.
func TestRetryCounts(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}, withRetry(2)), define("leaf", nil)}
		h.models["lead"] = turns(
			failsTimes(1, busy, delayed(time.Second, calls(call("leaf", "x")))),
			delayed(time.Second, failsTimes(1, busy, joinsResults)),
		)
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		o := h.expectCompleted(r, "c0=leaf")
		if got := h.entries(r)[0]; o.Retries != 2 || got.Retries != 1 || o.ModelMS != 3000 || got.ModelMS != 1000 ||
			o.Turns != 2 {
			t.Errorf("outcome %+v\nentry %+v\nwant 2 retries and 3000 ms in 2 turns, 1 and 1000 ms in the entry",
				o, got)
		}
	})
}

// TestRetryIsPublished: a retry is published as progress, with the time of the
// next attempt.
func TestRetryIsPublished(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withRetry(3))}
		h.models["lead"] = failsTimes(1, busy, delayed(time.Second, repeats))
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.root("lead")
		progress := h.subscribe(r.Space.PartsOf(r.Tree))
		h.submitTo(r, "go")
		h.expectCompleted(r, "go")
		var got []run.Progress
		for _, m := range progress() {
			var p run.Progress
			if err := json.Unmarshal(m.Body, &p); err != nil {
				t.Fatal(err)
			}
			got = append(got, p)
		}
		retrying := run.Progress{
			Event:    "retrying",
			Turn:     1,
			Worker:   "w",
			Attempt:  2,
			Attempts: 3,
			Reason:   "rate_limit",
			Next:     h.requests("lead")[1].began.UTC(),
		}
		asking := run.Progress{Event: "asking", Turn: 1, Worker: "w", Attempt: 2, Attempts: 3}
		for i := range got {
			got[i].Next = got[i].Next.UTC()
		}
		if diff := cmp.Diff([]run.Progress{retrying, asking}, got); diff != "" {
			t.Errorf("progress messages (-want +got):\n%s", diff)
		}
	})
}

// TestCancelEndsARetryPause: a cancel message ends a pause between attempts at
// once, and no model is asked afterwards.
func TestCancelEndsARetryPause(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withRetry(3))}
		h.models["lead"] = fails(busy)
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		time.Sleep(time.Second)
		from := time.Now()
		h.publish(r.Cancel(), "")
		h.expectFailed(r, run.KindCancelled, "cancelled")
		h.tookAtMost(from, 500*time.Millisecond)
		time.Sleep(time.Minute)
		if n := len(h.requests("lead")); n != 1 {
			t.Errorf("the model was asked %d times, want once", n)
		}
	})
}

// TestDrainEndsARetryPause: a drain ends a pause between attempts at once.
// Another worker makes the next attempt then.
func TestDrainEndsARetryPause(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, func(a *configs.Agent) {
			a.Retry = configs.Retry{
				MaxAttempts: 3,
				Backoff:     configs.Fixed,
				Initial:     40 * time.Second,
				Max:         time.Minute,
			}
		})}
		h.models["lead"] = failsTimes(1, busy, repeats)
		w := h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		h.startWorker("successor", workerOptions{})
		h.awaitReady()
		from := time.Now()
		w.drain()
		if o := h.expectCompleted(r, "go"); o.Worker != "successor" || o.Retries != 1 {
			t.Errorf("outcome %+v, want one by the successor after 1 retry", o)
		}
		h.tookAtMost(from, 3*time.Second)
	})
}

// TestRetryIsRecorded: a later turn keeps the retries that the run was started
// with, on a worker that has no retries in its file.
func TestRetryIsRecorded(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}, withRetry(3)), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), failsTimes(2, busy, joinsResults))
		h.models["leaf"] = delayed(30*time.Second, says("leaf"))
		w := h.startWorker("first", workerOptions{agents: h.agents[:1]})
		h.startWorker("leaves", workerOptions{agents: h.agents[1:]})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		w.drain()
		h.startWorker("next", workerOptions{agents: []configs.Agent{define("lead", []string{"leaf"})}})
		if o := h.expectCompleted(r, "c0=leaf"); o.Worker != "next" || o.Retries != 2 {
			t.Errorf("outcome %+v, want one by next after 2 retries", o)
		}
		want := &run.Retry{Attempts: 3, Backoff: run.Fixed, Initial: 4 * time.Second, Max: 30 * time.Second}
		if diff := cmp.Diff(want, h.entries(r)[0].Start.Retry); diff != "" {
			t.Errorf("the retries on the log (-want +got):\n%s", diff)
		}
	})
}

// TestNoRetryLeavesNoTrace: no entry and no outcome of a run without retries
// mentions them.
func TestNoRetryLeavesNoTrace(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.expectCompleted(r, "c0=leaf")
		for _, m := range h.readTree(r.Tree) {
			at, err := h.conn.Space().Parse(m.Subject)
			if err == nil && at.Kind != subjects.Call && strings.Contains(string(m.Body), "retr") {
				t.Errorf("%s mentions retries: %s", m.Subject, m.Body)
			}
		}
	})
}
