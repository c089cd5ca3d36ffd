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

// TestTallyWritesAreFew: 200 runs that begin at once share one tally, and each
// of their model calls changes it twice. The workers take no more attempts to
// write than there are changes, since a write has many changes.
func TestTallyWritesAreFew(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		const (
			runs       = 200
			modelCalls = runs + 2       // the lead makes two
			changes    = 2 * modelCalls // a reservation and a record for each
		)
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
		if n := tried.Load(); n == 0 || n > changes {
			t.Errorf("%d attempts to write %d changes, want 1 to %d", n, changes, changes)
		}
	})
}
