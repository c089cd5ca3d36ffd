package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
)

// TestIdleNoticeSurvivesAFailedWrite: a fork's answer is on the log, and its
// idle notice could not be written. A message that arrives before the retry
// moves the run on. The notice is written nevertheless.
func TestIdleNoticeSurvivesAFailedWrite(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")),
				delayed(10*time.Second+retryWait/2, calls(use("send", "to", "r-1-0", "message", "more"))),
				delayed(time.Minute, calls(use("check_mail"))), joinsResults,
			},
			"r-1-0": {delayed(10*time.Second, says("first")), calls(use("check_mail")), says("second")},
		})
		var broken atomic.Bool
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, "-idle1") &&
				broken.CompareAndSwap(false, true) {
				return errBusBroken
			}
			return nil
		}})
		h.awaitReady()
		h.expectCompleted(
			h.submit("lead", "go"),
			`c0={"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"first"}},`+
				`{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"second"}}]}`,
		)
		if !broken.Load() {
			t.Error("the write of the idle notice did not fail")
		}
		h.checkVerified()
	})
}

// retryWait is the time until a worker retries after an error of the bus.
const retryWait = time.Second

// TestSequentialCallAfterAFork: where calls are made one after the other, the
// outcome of a call after a fork counts, though the fork goes on.
func TestSequentialCallAfterAFork(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {calls(use("fork", "prompt", "one"), call("leaf", "x"), call("leaf", "y")), joinsResults},
		})
		h.agents[0].Delegation.Styles = append(h.agents[0].Delegation.Styles, configs.StyleCall)
		h.agents[0].SubAgents = []string{"leaf"}
		sequential(&h.agents[0])
		h.agents = append(h.agents, define("leaf", nil))
		h.models["leaf"] = repeats
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(h.submit("lead", "go"), "c0=r-1-0|c1=x|c2=y")
		h.checkVerified()
	})
}

// TestLateSenderReadsAgain: a worker was held up while it carried out the side
// effects of a turn. It reads the run again before it asks the model, since
// another worker may have gone on.
func TestLateSenderReadsAgain(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "one")), joinsResults},
			"r-1-0": {delayed(time.Hour, says("never"))},
		})
		var held atomic.Bool
		h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &held, atStep: func(s step) error {
			if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, ".r-1-0.call") &&
				held.CompareAndSwap(false, true) {
				time.Sleep(time.Minute)
				held.Store(false)
			}
			return nil
		}})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		h.startWorker("w2", workerOptions{})
		h.expectCompleted(r, "c0=r-1-0")
		time.Sleep(2 * time.Minute)
		if requests := h.requestsOf("r"); len(requests) != 2 || requests[1].worker.name != "w2" {
			t.Errorf("the lead's model was asked %d times, the last time by %s, want 2 times, the last time by w2",
				len(requests), requests[len(requests)-1].worker.name)
		}
		h.checkVerified()
	})
}

// TestLateAskerReadsAgain: a worker has lost its lease, and goes on with the
// run. A second worker takes the run over, and is held up between its read of
// the run and its request to the model. It reads the run again, finds the entry
// or the outcome of the first worker, and asks for no turn that is stored.
func TestLateAskerReadsAgain(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, plan := range map[string][]scriptedModel{
		"an answer": {delayed(15*time.Second, says("done"))},
		"a turn":    {delayed(15*time.Second, calls(use("check_mail"))), joinsResults},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.forkingLead(map[string][]scriptedModel{"r": plan})
				var frozen, held atomic.Bool
				frozen.Store(true)
				h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &frozen})
				h.awaitReady()
				r := h.submit("lead", "go")
				h.awaitRequests("lead", 1)
				h.startWorker("w2", workerOptions{beforeModel: func() {
					if held.CompareAndSwap(false, true) {
						time.Sleep(10 * time.Second)
					}
				}})
				h.awaitOutcome(r, time.Hour)
				time.Sleep(2 * time.Minute)
				if !held.Load() {
					t.Error("no worker took the run over")
				}
				if requests := h.requestsOf("r"); len(requests) != len(plan) {
					t.Errorf("the model was asked %d times, want %d", len(requests), len(plan))
				}
				h.checkVerified()
			})
		})
	}
}
