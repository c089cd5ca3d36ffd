package agentd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/provider"
)

// TestProbeDelaysOthersBriefly: a provider asks to wait for five seconds, and
// its answers take ten minutes. One request, the probe, goes first. The other
// requests do not wait for its whole answer.
func TestProbeDelaysOthersBriefly(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withRetry(5))}
		var n atomic.Int64
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if n.Add(1) == 1 {
				return nil, &provider.Error{Category: provider.RateLimit, Status: 429, RetryAfter: 5 * time.Second}
			}
			return delayed(10*time.Minute, repeats)(ctx, req)
		}
		h.startWorkers(4, workerOptions{Config: limited(ratelimit.Settings{RetryAfter: true})})
		first := h.submit("lead", "first")
		h.awaitRequests("lead", 1)
		time.Sleep(100 * time.Millisecond)
		open := time.Now().Add(5 * time.Second)
		rs := h.submitAll(10)
		h.expectCompleted(first, "first")
		for i, r := range rs {
			h.expectCompleted(r, fmt.Sprintf("t%d", i))
		}
		for i, a := range h.requests("lead")[1:] {
			if d := a.began.Sub(open); d > time.Minute {
				t.Errorf("request %d of 11 was made %v after the provider's pause, want a minute at most",
					i+1, d.Round(time.Second))
				return
			}
		}
	})
}
