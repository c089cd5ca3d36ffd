package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/subjects"
)

// TestWaitForAPermitCostsNoTurn: a run waits for a permit, its worker drains,
// and another worker continues the run. No model was asked, so the run's one
// turn is still unused.
func TestWaitForAPermitCostsNoTurn(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("busy", nil), define("lead", nil, withBudget(subjects.Budget{Turns: 1}))}
		h.models["busy"] = delayed(10*time.Minute, repeats)
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		cfg.Grace = time.Second
		w := h.startWorker("w", workerOptions{Config: cfg})
		h.awaitReady()
		h.submit("busy", "go")
		h.awaitRequests("busy", 1)
		r := h.submit("lead", "x")
		time.Sleep(10 * time.Second)
		h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 4}})
		h.awaitReady()
		w.drain()
		h.expectCompleted(r, "lead")
	})
}
