package agentd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
)

// TestMailToABusyRunBlocksNoOther: while a run's model is asked, the run gets
// more messages than a worker pulls at once. The worker still serves other
// runs, and the run gets every message.
func TestMailToABusyRunBlocksNoOther(t *testing.T) {
	t.Parallel()
	const messages = 200
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("busy", nil), define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["busy"] = turns(delayed(30*time.Minute, says("done")))
		h.models["lead"] = turns(calls(call("leaf", "x")), calls(call("leaf", "y")), joinsResults)
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 8}})
		h.awaitReady()
		a := h.submit("busy", "go")
		h.awaitRequests("busy", 1)
		for i := range messages {
			h.publish(a.Mail(h.key(fmt.Sprint("m", i))), fmt.Sprintf(`{"from":"user","text":"message %d."}`, i))
		}
		time.Sleep(time.Second)
		began := time.Now()
		h.expectCompleted(h.submit("lead", "go"), "c0=leaf")
		h.tookAtMost(began, time.Minute)
		// The interrupt aborts the request of half an hour, and the
		// last message wakes the run.
		h.setModel("busy", recites)
		h.publish(a.Interrupt(h.key("stop")), "")
		h.publish(a.Mail(h.key("last")), `{"from":"user","text":"The last."}`)
		o := h.awaitOutcome(a, time.Hour)
		if n := strings.Count(o.Result, "message "); n != messages || !strings.HasSuffix(o.Result, "The last.") {
			t.Errorf("the model read %d messages, want %d and then the last: %.300s", n, messages, o.Result)
		}
		h.checkVerified()
	})
}
