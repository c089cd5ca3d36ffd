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
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("busy", nil), define("lead", nil, limits(subjects.Budget{Turns: 1}))}
		s.parts["busy"] = after(10*time.Minute, repeats)
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		cfg.Grace = time.Second
		h := s.hire("w", engagement{Config: cfg})
		s.settle()
		s.submit("busy", "go")
		s.asking("busy", 1)
		r := s.submit("lead", "x")
		time.Sleep(10 * time.Second)
		s.hire("heir", engagement{Config: agentd.Config{Slots: 4}})
		s.settle()
		h.leave(s)
		s.completed(r, "lead")
	})
}
