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
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// limited is the configuration of a worker with four slots and with one rate
// limit for all models.
func limited(s ratelimit.Settings) agentd.Config {
	account := func(string) (string, ratelimit.Settings) { return "sim-000000000000", s }
	return agentd.Config{Slots: 4, RateLimit: account}
}

// startWorkers starts n workers and waits until they are ready.
func (h *harness) startWorkers(n int, o workerOptions) {
	for i := range n {
		h.startWorker(fmt.Sprintf("w%d", i), o)
	}
	h.awaitReady()
}

// submitAll submits n tasks at once.
func (h *harness) submitAll(n int) []subjects.Run {
	var rs []subjects.Run
	for i := range n {
		rs = append(rs, h.submit("lead", fmt.Sprintf("t%d", i)))
	}
	return rs
}

// rateLimitState reads the stored state of the rate limits.
func (h *harness) rateLimitState() ratelimit.State {
	value, _, err := h.conn.RateLimit("sim-000000000000").Read(h.ctx, 0)
	if err != nil {
		h.tb.Fatal(err)
	}
	return ratelimit.Decode(value)
}

// TestNoLimitCostsNothing: without a rate limit nothing is written, and no
// bucket is made. A limit that only heeds a provider's wish to wait makes the
// bucket, and writes nothing before such a wish.
func TestNoLimitCostsNothing(t *testing.T) {
	t.Parallel()
	for set, want := range map[ratelimit.Settings]bool{{}: false, {RetryAfter: true}: false, {Concurrent: 1}: true} {
		withHarness(t, func(h *harness) {
			h.agents = []configs.Agent{define("lead", nil)}
			written, made := h.subscribe("$KV.AXE_LIMITS.>"), h.subscribe("$JS.API.STREAM.CREATE.KV_AXE_LIMITS")
			h.startWorkers(1, workerOptions{Config: limited(set)})
			h.expectCompleted(h.submit("lead", "go"), "lead")
			if n := len(written()); n > 0 != want {
				t.Errorf("%+v: %d writes, want any: %t", set, n, want)
			}
			if n := len(made()); n > 0 != set.On() {
				t.Errorf("%+v: the bucket was made %d times, want it made: %t", set, n, set.On())
			}
		})
	}
}

// refusingProvider asks to wait until a time after its first refusal, and
// refuses each request until then.
type refusingProvider struct {
	mu      sync.Mutex
	refused time.Time
}

// refusing answers like another model once the provider refuses no more.
func (p *refusingProvider) refusing(after time.Duration, then scriptedModel) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		if err := p.refuses(after); err != nil {
			return nil, err
		}
		return then(ctx, req)
	}
}

// refuses returns the refusal of a request now, with the time that is left of
// the wait; nil once the time after the first refusal has passed.
func (p *refusingProvider) refuses(after time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.refused.IsZero() {
		p.refused = now
	}
	if left := p.refused.Add(after).Sub(now); left > 0 {
		return &provider.Error{Category: provider.RateLimit, Status: 429, RetryAfter: left, Message: "slow down"}
	}
	return nil
}

// TestRetryAfterStopsAllWorkers: when a provider asks to wait, 16 workers
// together make at most one request before that time is over. Then one request,
// the probe, goes first, and the others follow its answer.
func TestRetryAfterStopsAllWorkers(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		var m refusingProvider
		h.agents = []configs.Agent{define("lead", nil, withRetry(5))}
		h.models["lead"] = m.refusing(5*time.Second, delayed(time.Second, repeats))
		h.startWorkers(16, workerOptions{Config: limited(ratelimit.Settings{RetryAfter: true})})
		first := h.submit("lead", "first")
		h.awaitRequests("lead", 1)
		time.Sleep(100 * time.Millisecond)
		rs := h.submitAll(50)
		h.expectCompleted(first, "first")
		for i, r := range rs {
			h.expectCompleted(r, fmt.Sprintf("t%d", i))
		}
		// A worker may have begun a request before it learned of the
		// refusal: those of the first 20 ms do not count.
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
			t.Errorf("%d requests before the 5 s were over, want one at most", early)
		}
		slices.SortFunc(later, time.Time.Compare)
		if len(later) != 51 {
			t.Fatalf("%d requests afterwards, want one of each of 51 trees", len(later))
		}
		if d := later[1].Sub(later[0]); d < time.Second {
			t.Errorf("the second request was made %v after the probe, want it after the probe's answer", d)
		}
		if st := h.rateLimitState(); !st.ClosedUntil.IsZero() || st.Probe != nil {
			t.Errorf("the rate limit still stops requests: %+v", st)
		}
	})
}

// TestFailedProbeIsFollowedByAnother: a probe that fails for another reason is
// followed by another probe. A probe that is told to wait stops all requests
// again.
func TestFailedProbeIsFollowedByAnother(t *testing.T) {
	thorough(t)
	t.Parallel()
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
			t.Errorf("seconds at which the model was asked:\n%s", diff)
		}
	})
}

// TestConcurrentRequestsAreBounded: requests in flight never exceed the limit,
// and never fall below it while more requests wait.
func TestConcurrentRequestsAreBounded(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(3*time.Second, repeats)
		h.startWorkers(3, workerOptions{Config: limited(ratelimit.Settings{Concurrent: 5})})
		from := time.Now()
		for i, r := range h.submitAll(20) {
			o := h.expectCompleted(r, fmt.Sprintf("t%d", i))
			if o.ModelMS != 3000 {
				t.Errorf("model time %d ms, want 3000 without the wait for a permit", o.ModelMS)
			}
		}
		if n := peakConcurrency(h.requests("lead")); n != 5 {
			t.Errorf("%d requests at once, want 5", n)
		}
		h.tookAtMost(from, 13*time.Second)
		for _, w := range h.workers {
			w.drain()
		}
		if st := h.rateLimitState(); len(st.Holders) > 0 {
			t.Errorf("drained workers hold permits: %+v", st)
		}
	})
}

// TestLimitsPerMinute: requests in a minute of the clock never exceed the
// limit. No request begins when the minute's tokens are used.
func TestLimitsPerMinute(t *testing.T) {
	t.Parallel()
	thorough(t)
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
					// Tokens count when the answer is there.
					// So the 12 slots may have as many
					// requests in flight beyond the limit.
					if name == "requests" && n > 7 || n > 7+12 {
						t.Errorf("%d requests in the minute from %v, want at most 7, or 19 for tokens", n, at)
					}
				}
				if name == "requests" && len(windows) < 4 || len(windows) < 2 {
					t.Errorf("30 requests were made in %d minutes, want more", len(windows))
				}
			})
		})
	}
}

// TestPermitsExpireWithTheLease: the permits of a live worker have a lease that
// it renews. The permits of a dead worker are free when the lease expires.
func TestPermitsExpireWithTheLease(t *testing.T) {
	thorough(t)
	t.Parallel()
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
			t.Errorf("the lease of the permits in use was not renewed: %+v", st)
		}
		w.kill()
		died := time.Now()
		h.startWorker("successor", workerOptions{Config: limited(ratelimit.Settings{Concurrent: 2})})
		h.expectCompleted(one, "t0")
		h.expectCompleted(two, "t1")
		h.tookAtMost(died, 35*time.Second)
		if next := h.requests("lead")[2].began.Sub(died); next < 20*time.Second {
			t.Errorf("the model was asked %v after the death, want it after the lease of the permits", next)
		}
	})
}

// TestDrainReleasesPermits: a drained worker aborts its request at the end of
// its grace. The permit of that request is free at once.
func TestDrainReleasesPermits(t *testing.T) {
	t.Parallel()
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

// TestWaitForAPermit: a wait for a permit is published as progress and keeps
// the trigger's lease. A cancel message, a drain and the deadline each end it.
func TestWaitForAPermit(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("busy", nil), define("lead", nil)}
		h.models["busy"] = delayed(10*time.Minute, repeats)
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		w := h.startWorker("w", workerOptions{Config: cfg})
		h.awaitReady()
		h.submit("busy", "go")
		h.awaitRequests("busy", 1)
		cut := h.root("lead")
		late := h.root("lead")
		kept := h.root("lead")
		progress := h.subscribe(cut.Space.PartsOf(cut.Tree))
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
		published := progress()
		if len(published) != 1 || json.Unmarshal(published[0].Body, &p) != nil ||
			p != (run.Progress{Event: "waiting", Turn: 1, Worker: "w", Reason: "max_concurrent"}) {
			t.Errorf("%d progress messages, the first %+v, want one that says that w waits", len(published), p)
		}
		time.Sleep(time.Minute)
		h.startWorker("successor", workerOptions{Config: limited(ratelimit.Settings{})})
		h.awaitReady()
		at = time.Now()
		w.stop()
		h.expectCompleted(kept, "lead")
		h.tookAtMost(at, 3*time.Second)
		if requests := h.requests("lead"); len(requests) != 1 || requests[0].worker.name != "successor" {
			t.Errorf("requests %+v, want one by the successor", requests)
		}
	})
}
