package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
)

// TestIdleWordSurvives: a fork's answer is on the log and its word to the
// parent could not be written. A letter that comes before that is tried again
// moves the run on, and the word is written nevertheless.
func TestIdleWordSurvives(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(
					use("fork", "prompt", "one"),
				), delayed(10*time.Second+again/2, calls(use("send", "to", "r-1-0", "message", "more"))),
				delayed(time.Minute, calls(use("check_mail"))), joinsResults,
			},
			"r-1-0": {delayed(10*time.Second, says("first")), calls(use("check_mail")), says("second")},
		})
		var broken atomic.Bool
		h.startWorker("w", workerOptions{atStep: func(at step) error {
			if at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, "-idle1") &&
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
		h.checkVerified()
	})
}

// again is what a worker waits until it tries again what failed on the bus.
const again = time.Second

// TestForkInTurn: where one call is made after the other, the outcome of one
// that comes after a fork counts, though the fork goes on.
func TestForkInTurn(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.forkingLead(
			map[string][]scriptedModel{
				"r": {calls(use("fork", "prompt", "one"), call("leaf", "x"), call("leaf", "y")), joinsResults},
			},
		)
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

// TestSentOutLate: who was held up while it sent out what a turn has asked for
// looks again before it asks the model: another worker has gone on.
func TestSentOutLate(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "one")), joinsResults},
			"r-1-0": {delayed(time.Hour, says("never"))},
		})
		var held atomic.Bool
		h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &held, atStep: func(at step) error {
			if at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, ".r-1-0.call") &&
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
		if asks := h.requestsOf("r"); len(asks) != 2 || asks[1].worker.name != "w2" {
			t.Errorf("the model was asked %d times", len(asks))
		}
		h.checkVerified()
	})
}

// TestAskedOnNewKnowledge: who was held up between reading a run and asking its
// model reads it again: the worker that had it before may have gone on
// meanwhile, though its lease was over.
func TestAskedOnNewKnowledge(t *testing.T) {
	for name, plan := range map[string][]scriptedModel{
		"an answer": {delayed(15*time.Second, says("done"))},
		"a turn":    {delayed(15*time.Second, calls(use("check_mail"))), joinsResults},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.forkingLead(map[string][]scriptedModel{"r": plan})
				var mute, held atomic.Bool
				mute.Store(true)
				h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &mute})
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
					t.Error("nobody took the run over")
				}
				if asks := h.requestsOf("r"); len(asks) != len(plan) {
					t.Errorf("the model was asked %d times, want %d", len(asks), len(plan))
				}
				h.checkVerified()
			})
		})
	}
}
