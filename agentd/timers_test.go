package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestTimersAreDisarmed: a tree that has ended leaves no scheduled message
// behind, with and without a timeout for its calls.
func TestTimersAreDisarmed(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, test := range map[string]struct {
		timeout int // in seconds
		slow    bool
	}{"none": {0, false}, "timeout": {60, false}, "slow": {0, true}, "slow with a timeout": {60, true}} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.agents = levels(3, func(a *configs.Agent) { a.SubAgentsConf.Timeout = test.timeout })
				if test.slow {
					// Longer than a worker puts off a timer.
					h.models["tree"] = delayed(5*time.Second, h.tree.respond)
				}
				w := h.startWorker("w", workerOptions{})
				r := h.submit("a0", "L")
				h.expectAnswer(h.awaitOutcome(r, time.Hour), 2)
				h.expectNoTimer()
				w.drain()
			})
		})
	}
}

// expectNoTimer waits a second, and expects that the stream has no scheduled
// message.
func (h *harness) expectNoTimer() {
	time.Sleep(time.Second)
	for _, m := range h.readAll(h.conn.Space().Timers()) {
		h.tb.Errorf("the timer %s is left, want none", m.Subject)
	}
}

// expectNoOwnTimer expects that a run has no timer of its own.
func (h *harness) expectNoOwnTimer(r subjects.Run) {
	if n := len(h.readAll(r.Timer(0))); n != 0 {
		h.tb.Errorf("%d timers of %s are left, want none", n, r.Path)
	}
}

// TestNoTimerAfterABadEnd: a tree with a timeout for its calls leaves no
// scheduled message behind, however it ends.
func TestNoTimerAfterABadEnd(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, test := range map[string]struct {
		timeout string // of the tree; the call has a minute
		cancel  bool
		want    run.Kind // of the outcome; "" for a completed run
	}{
		"a call times out":  {timeout: "1h"},
		"cancelled":         {timeout: "1h", cancel: true, want: run.KindCancelled},
		"past its deadline": {timeout: "30s", want: run.KindTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				timeout(60)(&h.agents[0])
				h.models["leaf"] = delayed(5*time.Minute, repeats)
				h.startWorker("w", workerOptions{})
				r := h.root("lead")
				h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, test.timeout})
				h.awaitRequests("leaf", 1)
				if test.cancel {
					h.publish(r.Cancel(), "")
				}
				if o := h.awaitOutcome(r, time.Hour); o.Kind != test.want {
					t.Errorf("outcome %+v, want kind %q", o, test.want)
				}
				h.expectNoTimer()
			})
		})
	}
}
