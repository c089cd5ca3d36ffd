package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
)

// TestIdleNoticeSurvivesAFailedWrite: a fork's answer is on the log, and the
// write of its idle notice fails. Before the worker retries, a message wakes
// the fork. The notice is written nevertheless.
func TestIdleNoticeSurvivesAFailedWrite(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")),
				// This message arrives between the failed write and
				// the retry.
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

// TestSequentialCallAfterAFork: a sequential turn has a fork before its calls.
// The calls are made though the fork still runs, and their outcomes count.
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
