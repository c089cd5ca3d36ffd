package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// TestVerifyAfterAnOutage: the server does not store from before a run's
// deadline until after it, and its worker holds the answer. What it writes then
// is what workers write: either it does not, or axe verify does not call it
// wrong.
func TestVerifyAfterAnOutage(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = after(20*time.Second, says("done"))
		s.hire("w", engagement{intercept: func(at bus.Point) error {
			if at.Op == "write" && !at.After && strings.HasPrefix(at.Subject, "axe.result.") {
				// as bus.Conn.Write does while there is no room
				time.Sleep(2 * time.Minute)
			}
			return nil
		}})
		s.settle()
		r := s.root("lead")
		s.send(r, "go", due(time.Now().Add(30*time.Second)))
		o := s.result(r, time.Hour)
		time.Sleep(time.Minute)
		t.Logf("%s %s", o.Status, o.Kind)
		s.clean()
	})
}
