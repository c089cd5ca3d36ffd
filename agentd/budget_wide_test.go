package agentd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestTallyCostGrowsLinearly: 200 runs that begin at once share one tally. The
// cost of counting grows with their number, not with its square.
func TestTallyCostGrowsLinearly(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const n = 200
		h.agents = []configs.Agent{
			define("lead", []string{"leaf"}, withBudget(subjects.Budget{Turns: 1000, Tokens: 1_000_000})),
			define("leaf", nil),
		}
		h.models["lead"] = turns(splitsTask("leaf", n), joinsResults)
		var tried atomic.Int64
		// Each worker has the default of 64 slots.
		for i := range 4 {
			h.startWorker(fmt.Sprintf("w%d", i), workerOptions{atStep: func(s step) error {
				if s.Op == "write" && !s.After && strings.Contains(s.Subject, ".tally.") {
					tried.Add(1)
				}
				return nil
			}})
		}
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "L"), time.Hour)
		if stored := int64(len(h.readAll("axe.tally.>"))); tried.Load() > 5*stored {
			t.Errorf("%d writes for %d changes", tried.Load(), stored)
		}
	})
}
