package agentd_test

import (
	"testing"

	"github.com/axebus/axe/configs"
)

// TestFreshCallReadsNothing: a call that nobody else can have had is not looked up. What is read is the submission's.
func TestFreshCallReadsNothing(t *testing.T) {
	onStageOver(t, 1, func(s *stage) {
		s.agents = []configs.Agent{define("leaf", nil)}
		w := s.hire("w", engagement{})
		s.settle()
		s.completed(s.submit("leaf", "first"), "leaf")
		before := w.conn.Stats().Reads
		const n = 20
		for range n {
			s.completed(s.submit("leaf", "go"), "leaf")
		}
		if reads := w.conn.Stats().Reads - before; reads != n {
			t.Errorf("%d reads for %d submissions and their calls, want one for each submission", reads, n)
		}
	})
}
