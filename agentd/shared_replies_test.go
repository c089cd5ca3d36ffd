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

// TestRepliesAreNotHoarded: many runs become ready on a worker with one slot. A
// second worker that starts later gets its share of them.
func TestRepliesAreNotHoarded(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const trees = 12
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), delayed(25*time.Second, joinsResults))
		start := time.Now()
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			return delayed(time.Until(start.Add(20*time.Second)), says("leaf"))(ctx, req)
		}
		h.startWorker("leaves", workerOptions{agents: h.agents[1:]})
		h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, agents: h.agents[:1]})
		h.awaitReady()
		var all []subjects.Run
		for i := range trees {
			all = append(all, h.submit("lead", strconv.Itoa(i)))
		}
		h.awaitRequests("lead", trees+1)
		time.Sleep(12 * time.Second)
		h.startWorker("w2", workerOptions{Config: agentd.Config{Slots: 1}, agents: h.agents[:1]})
		for _, r := range all {
			h.expectCompleted(r, "c0=leaf")
		}
		// From then on each worker takes half of the second turns, give
		// or take two.
		h.tookAtMost(start, (20+12+25*(trees/2+2))*time.Second)
	})
}
