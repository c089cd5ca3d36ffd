package agentd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/subjects"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// TestWideTreeWithBounds: 200 runs that begin at once share one tally. What it
// costs to count them grows with their number, not with its square.
func TestWideTreeWithBounds(t *testing.T) {
	onStage(t, func(s *stage) {
		const n = 200
		s.agents = []configs.Agent{
			define("lead", []string{"leaf"}, limits(subjects.Budget{Turns: 1000, Tokens: 1_000_000})),
			define("leaf", nil),
		}
		s.parts["lead"] = turns(splits("leaf", n), sums)
		var tried atomic.Int64
		// with the 64 slots of the default
		for i := range 4 {
			s.hire(fmt.Sprintf("w%d", i), engagement{intercept: func(at bus.Point) error {
				if at.Op == "write" && !at.After && strings.Contains(at.Subject, ".tally.") {
					tried.Add(1)
				}
				return nil
			}})
		}
		s.settle()
		s.result(s.submit("lead", "L"), time.Hour)
		if stored := int64(len(s.all("axe.tally.>"))); tried.Load() > 5*stored {
			t.Errorf("%d writes for %d changes", tried.Load(), stored)
		}
	})
}
