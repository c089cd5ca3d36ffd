package agentd_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/ratelimit"
)

// TestRateLimitCountsOnceWithoutAck: acknowledgements of writes to a rate limit
// are lost, of admissions and of results. The state still counts each request
// and its tokens once. All requests are of the same minute.
func TestRateLimitCountsOnceWithoutAck(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = repeats // 11 tokens
		var n, lost atomic.Int64
		h.startWorkers(1, workerOptions{
			Config: limited(ratelimit.Settings{Requests: 1000, Tokens: 100_000}),
			atStep: func(s step) error {
				if s.Op != "write" || !s.After || !strings.Contains(s.Subject, "AXE_LIMITS") {
					return nil
				}
				// Admissions and results take turns. The second and the
				// third of three acknowledgements are lost.
				if n.Add(1)%3 == 1 {
					return nil
				}
				lost.Add(1)
				return errors.New("the acknowledgement was lost")
			},
		})
		for range 3 {
			h.expectCompleted(h.submit("lead", "x"), "x")
		}
		time.Sleep(2 * time.Second) // the last result is stored
		if lost.Load() < 4 {
			t.Errorf("%d acknowledgements were lost, want 4 at least", lost.Load())
		}
		if st := h.rateLimitState(); st.Requests != 3 || st.Tokens != 33 {
			t.Errorf("%d requests and %d tokens are counted, want 3 and 33", st.Requests, st.Tokens)
		}
	})
}
