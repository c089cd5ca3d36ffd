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

// TestTallyWritesAreFew: 200 runs that begin at once share one tally. Counting
// them takes at most five attempts to write for each change that is stored,
// though all of them change the same message.
func TestTallyWritesAreFew(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const runs, perChange = 200, 5
		h.agents = []configs.Agent{
			define("lead", []string{"leaf"}, withBudget(subjects.Budget{Turns: 1000, Tokens: 1_000_000})),
			define("leaf", nil),
		}
		h.models["lead"] = turns(splitsTask("leaf", runs), joinsResults)
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
		if stored := int64(len(h.readAll("axe.tally.>"))); tried.Load() > perChange*stored {
			t.Errorf("%d attempts to write %d changes, want at most %d", tried.Load(), stored, perChange*stored)
		}
	})
}
