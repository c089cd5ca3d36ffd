package agentd_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/ratelimit"
)

// TestRateLimitCountsOnceWithoutAck: every other acknowledgement of a write to
// a rate limit is lost. Each request of a minute is counted once all the same.
func TestRateLimitCountsOnceWithoutAck(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = repeats // 11 tokens
		var n atomic.Int64
		h.startWorkers(1, workerOptions{
			Config: limited(ratelimit.Settings{Requests: 1000, Tokens: 100_000}),
			atStep: func(s step) error {
				if s.Op == "write" && s.After && strings.Contains(s.Subject, "AXE_LIMITS") && n.Add(1)%2 == 1 {
					return errors.New("the acknowledgement was lost")
				}
				return nil
			},
		})
		for range 3 {
			h.expectCompleted(h.submit("lead", "x"), "x")
		}
		h.awaitReady()
		if st := h.rateLimitState(); st.Requests != 3 || st.Tokens != 33 {
			t.Errorf("%d requests and %d tokens are counted, want 3 and 33", st.Requests, st.Tokens)
		}
	})
}
