package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestRefundAndDeath: an inner bound has room for three calls, the outer one
// for one; two are given back to the inner one, and the worker dies before the
// turn is on the log. Its heir gives back no more than was counted.
func TestRefundAndDeath(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("lead", []string{"mid"}, limits(subjects.Budget{Agents: 3})),
			define("mid", []string{"leaf"}, limits(subjects.Budget{Agents: 5})), define("leaf", nil),
		}
		s.parts["lead"], s.parts["mid"], s.parts["leaf"] = turns(
			splits("mid", 1),
			sums,
		), turns(
			splits("leaf", 3),
			sums,
		), repeats
		var n atomic.Int64
		dying := make(chan struct{})
		h := s.hire("victim", engagement{intercept: func(at bus.Point) error {
			switch {
			case n.Load() >= 2:
				return errKilled
			case at.Op == "write" && at.After && strings.HasSuffix(at.Subject, ".r-1-0") && strings.Contains(at.Subject, "tally") && n.Add(1) == 2:
				close(dying)
				return errKilled
			}
			return nil
		}})
		s.settle()
		r := s.submit("lead", "L")
		<-dying
		h.kill()
		s.hire("heir", engagement{})
		if o := s.result(r, time.Hour); o.Status != run.StatusCompleted || s.runs(r) != 3 {
			t.Errorf("%s %q, %d runs", o.Status, o.Error, s.runs(r))
		}
		mid, err := subjects.ParsePath("r-1-0")
		if err != nil {
			t.Fatal(err)
		}
		var said []int
		for _, m := range s.all(r.Space.Tally(r.Tree, mid)) {
			said = append(said, budget.Decode(m.Body).Agents)
		}
		if said[len(said)-1] != 1 {
			t.Errorf("the tally of a run that called one other went through %d", said)
		}
	})
}
