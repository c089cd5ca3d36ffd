package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// limited is a worker's configuration with limits for all models.
func limited(s ratelimit.Settings) agentd.Config {
	return agentd.Config{Slots: 4, RateLimit: func(string) (string, ratelimit.Settings) { return "sim-000000000000", s }}
}

// crew hires so many workers and waits until they work.
func (h *harness) startWorkers(n int, e workerOptions) {
	for i := range n {
		h.startWorker(fmt.Sprintf("w%d", i), e)
	}
	h.awaitReady()
}

// submitAll submits so many tasks at once.
func (h *harness) submitAll(n int) []subjects.Run {
	var rs []subjects.Run
	for i := range n {
		rs = append(rs, h.submit("lead", fmt.Sprintf("t%d", i)))
	}
	return rs
}

// limits is what is stored of the limits.
func (h *harness) rateLimitState() ratelimit.State {
	value, _, err := h.conn.RateLimit("sim-000000000000").Read(h.ctx, 0)
	if err != nil {
		h.tb.Fatal(err)
	}
	return ratelimit.Decode(value)
}

// TestNoLimitCostsNothing: without one nothing is written, and there is not
// even a bucket to write to.
func TestNoLimitCostsNothing(t *testing.T) {
	for set, want := range map[ratelimit.Settings]bool{{}: false, {RetryAfter: true}: false, {Concurrent: 1}: true} {
		withHarness(t, func(h *harness) {
			h.agents = []configs.Agent{define("lead", nil)}
			written, made := h.subscribe("$KV.AXE_LIMITS.>"), h.subscribe("$JS.API.STREAM.CREATE.KV_AXE_LIMITS")
			h.startWorkers(1, workerOptions{Config: limited(set)})
			h.expectCompleted(h.submit("lead", "go"), "lead")
			if n := len(written()); n > 0 != want {
				t.Errorf("%+v: %d writes", set, n)
			}
			if n := len(made()); n > 0 != set.On() {
				t.Errorf("%+v: the bucket was made %d times", set, n)
			}
		})
	}
}

// moody refuses everything until a first refusal is so old, and notes when that
// was.
type ratelimitedProvider struct {
	mu      sync.Mutex
	refused time.Time
}

func (m *ratelimitedProvider) model(after time.Duration, then scriptedModel) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		if err := m.admit(after); err != nil {
			return nil, err
		}
		return then(ctx, req)
	}
}

func (m *ratelimitedProvider) admit(after time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.refused.IsZero() {
		m.refused = now
	}
	if left := m.refused.Add(after).Sub(now); left > 0 {
		return &provider.Error{Category: provider.RateLimit, Status: 429, RetryAfter: left, Message: "slow down"}
	}
	return nil
}

// TestRetryAfterClosesTheGate: of 16 workers at most one asks before the time
// is over that the provider wants to be left alone; then one asks first, and
// the others when it has been answered.
func TestRetryAfterClosesTheGate(t *testing.T) {
	withHarness(t, func(h *harness) {
		var m ratelimitedProvider
		h.agents = []configs.Agent{define("lead", nil, withRetry(5))}
		h.models["lead"] = m.model(5*time.Second, delayed(time.Second, repeats))
		h.startWorkers(16, workerOptions{Config: limited(ratelimit.Settings{RetryAfter: true})})
		first := h.submit("lead", "first")
		h.awaitRequests("lead", 1)
		time.Sleep(100 * time.Millisecond)
		rs := h.submitAll(50)
		h.expectCompleted(first, "first")
		for i, r := range rs {
			h.expectCompleted(r, fmt.Sprintf("t%d", i))
		}
		early, open := 0, m.refused.Add(5*time.Second)
		var later []time.Time
		for _, a := range h.requests("lead") {
			switch {
			case a.began.After(m.refused.Add(20*time.Millisecond)) && a.began.Before(open):
				early++
			case !a.began.Before(open):
				later = append(later, a.began)
			}
		}
		if early > 1 {
			t.Errorf("%d requests before the 5 s were over", early)
		}
		slices.SortFunc(later, time.Time.Compare)
		if len(later) != 51 || later[1].Sub(later[0]) < time.Second {
			t.Errorf("%d requests afterwards, the second %v after the first", len(later), later[1].Sub(later[0]))
		}
		if st := h.rateLimitState(); !st.ClosedUntil.IsZero() || st.Probe != nil {
			t.Errorf("it is not open again: %+v", st)
		}
	})
}

// TestTheNextProbe: a probe that fails in a way that says nothing is followed
// by another one, and a refused one closes the gate again.
func TestTheNextProbe(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withRetry(9))}
		var mu sync.Mutex
		n := 0
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			mu.Lock()
			n++
			nth := n
			mu.Unlock()
			switch nth {
			case 1:
				return nil, &provider.Error{Category: provider.Overloaded, RetryAfter: 10 * time.Second}
			case 2:
				return nil, &provider.Error{Category: provider.Server, Message: "broken"}
			case 3:
				return nil, &provider.Error{Category: provider.RateLimit, RetryAfter: 20 * time.Second}
			}
			return repeats(ctx, req)
		}
		h.startWorkers(3, workerOptions{Config: limited(ratelimit.Settings{RetryAfter: true})})
		from := time.Now()
		rs := []subjects.Run{h.submit("lead", "t0")}
		h.awaitRequests("lead", 1)
		time.Sleep(time.Second)
		rs = append(rs, h.submit("lead", "t1"), h.submit("lead", "t2"))
		for i, r := range rs {
			h.expectCompleted(r, fmt.Sprintf("t%d", i))
		}
		var at []float64
		for _, a := range h.requests("lead") {
			at = append(at, a.began.Sub(from).Round(time.Second).Seconds())
		}
		if diff := cmp.Diff([]float64{0, 10, 10, 30, 30, 30}, at); diff != "" {
			t.Error(diff)
		}
	})
}

// TestConcurrent: never more requests in flight than there may be, and never
// fewer while more wait.
func TestConcurrent(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(3*time.Second, repeats)
		h.startWorkers(3, workerOptions{Config: limited(ratelimit.Settings{Concurrent: 5})})
		from := time.Now()
		for i, r := range h.submitAll(20) {
			o := h.expectCompleted(r, fmt.Sprintf("t%d", i))
			if o.ModelMS != 3000 {
				t.Errorf("the time at the gate counts as the model's: %d ms", o.ModelMS)
			}
		}
		if n := peakConcurrency(h.requests("lead")); n != 5 {
			t.Errorf("%d at once", n)
		}
		h.tookAtMost(from, 13*time.Second)
		for _, w := range h.workers {
			w.drain()
		}
		if st := h.rateLimitState(); len(st.Holders) > 0 {
			t.Errorf("held by workers that have left: %+v", st)
		}
	})
}

// TestLimitsPerMinute: never more requests in a minute of the clock than there
// may be, and none when the tokens of the minute are spent.
func TestLimitsPerMinute(t *testing.T) {
	for name, set := range map[string]ratelimit.Settings{"requests": {Requests: 7}, "tokens": {Tokens: 70}} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("lead", nil)}
				h.models["lead"] = repeats // 11 tokens
				h.startWorkers(3, workerOptions{Config: limited(set)})
				for i, r := range h.submitAll(30) {
					h.expectCompleted(r, fmt.Sprintf("t%d", i))
				}
				windows := map[time.Time]int{}
				for _, a := range h.requests("lead") {
					windows[a.began.UTC().Truncate(time.Minute)]++
				}
				for at, n := range windows {
					// as many as were in flight when the
					// last tokens were spent
					if name == "requests" && n > 7 || n > 7+12 {
						t.Errorf("%d requests in the minute from %v", n, at)
					}
				}
				if name == "requests" && len(windows) < 4 || len(windows) < 2 {
					t.Errorf("%d minutes for 30 requests", len(windows))
				}
			})
		})
	}
}

// TestPermitsOfTheDead come back when their lease is over.
func TestPermitsOfTheDead(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.worker.name == "victim" {
				return delayed(10*time.Minute, repeats)(ctx, req)
			}
			return repeats(ctx, req)
		}
		w := h.startWorker("victim", workerOptions{Config: limited(ratelimit.Settings{Concurrent: 2})})
		h.awaitReady()
		one, two := h.submit("lead", "t0"), h.submit("lead", "t1")
		h.awaitRequests("lead", 2)
		time.Sleep(time.Minute)
		if st := h.rateLimitState(); len(st.Holders) != 1 {
			t.Errorf("the lease of what is in flight was not renewed: %+v", st)
		}
		w.kill()
		died := time.Now()
		h.startWorker("successor", workerOptions{Config: limited(ratelimit.Settings{Concurrent: 2})})
		h.expectCompleted(one, "t0")
		h.expectCompleted(two, "t1")
		h.tookAtMost(died, 35*time.Second)
		if next := h.requests("lead")[2].began.Sub(died); next < 20*time.Second {
			t.Errorf("asked %v after the death, with the permits of the dead", next)
		}
	})
}

// TestPermitsOfWhoLeaves are free at once, also when what it had in flight was
// aborted.
func TestPermitsOfWhoLeaves(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.worker.name == "w" {
				return delayed(10*time.Minute, repeats)(ctx, req)
			}
			return repeats(ctx, req)
		}
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		cfg.Grace = 3 * time.Second
		w := h.startWorker("w", workerOptions{Config: cfg})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		h.startWorker("successor", workerOptions{Config: cfg})
		h.awaitReady()
		w.drain()
		left := time.Now()
		h.expectCompleted(r, "go")
		h.tookAtMost(left, 2*time.Second)
	})
}

// TestWaitAtTheGate is told, keeps the lease of the trigger, and ends with a
// tombstone, a drain and the deadline.
func TestWaitAtTheGate(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("busy", nil), define("lead", nil)}
		h.models["busy"] = delayed(10*time.Minute, repeats)
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		w := h.startWorker("w", workerOptions{Config: cfg})
		h.awaitReady()
		h.submit("busy", "go")
		h.awaitRequests("busy", 1)
		cut, late, kept := h.root("lead"), h.root("lead"), h.root("lead")
		parts := h.subscribe(cut.Space.PartsOf(cut.Tree))
		from := time.Now()
		h.submitTo(cut, "cut")
		h.submitTo(late, "late", due(from.Add(time.Minute)))
		h.submitTo(kept, "kept")
		time.Sleep(40 * time.Second)
		h.publish(cut.Cancel(), "")
		at := time.Now()
		h.expectFailed(cut, run.KindCancelled, "cancelled")
		h.tookAtMost(at, 500*time.Millisecond)
		h.expectFailed(late, run.KindTimeout, "timeout after 60s")
		h.tookAtMost(from, 61*time.Second)
		var p run.Progress
		told := parts()
		if len(told) != 1 || json.Unmarshal(told[0].Body, &p) != nil ||
			p != (run.Progress{Event: "waiting", Turn: 1, Worker: "w", Reason: "max_concurrent"}) {
			t.Errorf("%d parts, %+v", len(told), p)
		}
		time.Sleep(time.Minute)
		h.startWorker("successor", workerOptions{Config: limited(ratelimit.Settings{})})
		h.awaitReady()
		at = time.Now()
		w.stop()
		h.expectCompleted(kept, "lead")
		h.tookAtMost(at, 3*time.Second)
		if asks := h.requests("lead"); len(asks) != 1 || asks[0].worker.name != "successor" {
			t.Errorf("asked: %+v", asks)
		}
	})
}
