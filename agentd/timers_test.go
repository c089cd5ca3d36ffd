package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
)

// TestTimersAreDisarmed leaves no schedule behind a tree that has ended in
// time, but for the last turn's of a root whose calls have a timeout of their
// own.
func TestTimersAreDisarmed(t *testing.T) {
	for name, want := range map[string]int{"none": 0, "timeout": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *sim) {
				s.agents = levels(3, func(a *configs.Agent) {
					if name == "timeout" {
						a.SubAgentsConf.Timeout = 60
					}
				})
				p := s.start("w", agentd.Config{}, nil)
				r := s.submit("a0", "L")
				s.right(s.result(r, time.Hour), 2)
				left, err := s.conn.ReadByScan(s.ctx, s.conn.Space().Timers(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if len(left) != want {
					t.Errorf("%d schedules are left, want %d: %v", len(left), want, left)
				}
				if err := p.drain(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
