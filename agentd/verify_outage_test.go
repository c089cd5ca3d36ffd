package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
)

// TestVerifyAfterAnOutage: the server stores nothing from before a run's
// deadline until after it, and the worker holds the answer. If the worker then
// writes the answer, axe verify reports no violation.
func TestVerifyAfterAnOutage(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(20*time.Second, says("done"))
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && !s.After && strings.HasPrefix(s.Subject, "axe.result.") {
				// bus.Conn.Write waits like that while there is
				// no room.
				time.Sleep(2 * time.Minute)
			}
			return nil
		}})
		h.awaitReady()
		r := h.root("lead")
		h.submitTo(r, "go", due(time.Now().Add(30*time.Second)))
		o := h.awaitOutcome(r, time.Hour)
		time.Sleep(time.Minute)
		t.Logf("%s %s", o.Status, o.Kind)
		h.checkVerified()
	})
}
