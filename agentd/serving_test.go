package agentd_test

import (
	"sync/atomic"
	"testing"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
)

// TestServingIsTold: at the moment at which a worker says that it serves, its
// agents are announced and the submissions have a consumer. It says so once.
func TestServingIsTold(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		directory, err := h.conn.Directory(h.ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, js := h.conn.NATS()
		var said atomic.Int64
		h.startWorker("one", workerOptions{Config: agentd.Config{Serving: func() {
			said.Add(1)
			if _, _, ok, err := directory.Get(h.ctx, "lead"); err != nil || !ok {
				t.Errorf("the agent is not announced, error %v", err)
			}
			if _, err := js.Consumer(h.ctx, "AXE_SUBMIT", "submissions"); err != nil {
				t.Errorf("the submissions have no consumer: %v", err)
			}
		}}})
		h.expectCompleted(h.submit("lead", "work"), "lead")
		// The worker opens another feed after this.
		if err := js.DeleteConsumer(h.ctx, "AXE_SUBMIT", "submissions"); err != nil {
			t.Fatal(err)
		}
		h.expectCompleted(h.submit("lead", "work"), "lead")
		if n := said.Load(); n != 1 {
			t.Errorf("the worker said %d times that it serves, want once", n)
		}
	})
}
