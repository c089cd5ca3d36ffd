package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/configs"
)

// TestTimersAreDisarmed: a tree that has ended leaves no scheduled message
// behind. With a timeout for its calls, a root leaves the timer of its last
// turn.
func TestTimersAreDisarmed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"none": 0, "timeout": 1} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.agents = levels(3, func(a *configs.Agent) {
					if name == "timeout" {
						a.SubAgentsConf.Timeout = 60
					}
				})
				w := h.startWorker("w", workerOptions{})
				r := h.submit("a0", "L")
				h.expectAnswer(h.awaitOutcome(r, time.Hour), 2)
				if left := h.readAll(h.conn.Space().Timers()); len(left) != want {
					t.Errorf("%d schedules are left, want %d: %v", len(left), want, left)
				}
				w.drain()
			})
		})
	}
}
