package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/subjects"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/configs"
)

// TestTurnsAreNotLostInLine: a run waits at its provider's limit, its worker
// leaves, another one goes on. No model was asked, so that the run's one turn
// is still there.
func TestTurnsAreNotLostInLine(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("busy", nil), define("lead", nil, limits(subjects.Budget{Turns: 1}))}
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
