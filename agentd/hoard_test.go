package agentd_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestRepliesAreNotHoarded has many runs become ready on a worker with one
// slot. A second worker that comes later gets its part of them.
func TestRepliesAreNotHoarded(t *testing.T) {
	onStage(t, func(s *stage) {
		const trees = 20
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(calls(call("leaf", "x")), after(25*time.Second, sums))
		start := time.Now()
		s.parts["leaf"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			return after(time.Until(start.Add(20*time.Second)), says("leaf"))(ctx, a)
		}
		s.hire("leaves", engagement{agents: s.agents[1:]})
		s.hire("w1", engagement{Config: agentd.Config{Slots: 1}, agents: s.agents[:1]})
		s.settle()
		var all []subjects.Run
		for i := range trees {
			all = append(all, s.submit("lead", strconv.Itoa(i)))
		}
		s.asking("lead", trees+1)
		time.Sleep(12 * time.Second)
		s.hire("w2", engagement{Config: agentd.Config{Slots: 1}, agents: s.agents[:1]})
		for _, r := range all {
			s.completed(r, "c0=leaf")
		}
		s.within(start, (20+12+25*(trees/2+2))*time.Second)
	})
}
