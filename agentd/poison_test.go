package agentd_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// refuseWrites fails writes to subjects with a suffix while broken is set.
func refuseWrites(broken *atomic.Bool, suffix string) func(step) error {
	return func(s step) error {
		if broken.Load() && s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, suffix) {
			return errBusBroken
		}
		return nil
	}
}

// testPoisoned fails the root's writes to its log, or of its outcome if it is a
// leaf, until the run's cancel message is written. The run has to end as
// poisoned after 20 deliveries, and to leave one dead letter.
func testPoisoned(t *testing.T, leaf bool) {
	t.Helper()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		r := h.root("lead")
		refused := r.Log()
		if leaf {
			h.models["lead"] = says("done")
			refused = r.Space.Result(r.Agent, r.Tree)
		}
		var cancelled atomic.Bool
		intercept := func(s step) error {
			cancelled.CompareAndSwap(false, s.Op == "write" && s.Subject == r.Cancel())
			if s.Op == "write" && !s.After && s.Subject == refused && !cancelled.Load() {
				return errBusBroken
			}
			return nil
		}
		h.startWorker("w1", workerOptions{atStep: intercept})
		h.startWorker("w2", workerOptions{atStep: intercept})
		h.submitTo(r, "go")
		const why = "given up after 20 deliveries of the message that moves it: " +
			"20 failed (the last: the bus is broken on purpose)"
		h.expectFailed(r, run.KindPoisoned, why)
		if n := len(h.requests("lead")); n != 20 {
			t.Errorf("the model was asked %d times, want one for each of 20 deliveries", n)
		}
		if got := h.deadLetterReasons(r.Dead()); len(got) != 1 || got[0] != why {
			t.Errorf("dead letters: %q, want one: %q", got, why)
		}
		m := h.readAll(r.Dead())[0]
		if m.Header.Get("Axe-Subject") != r.Call() || string(m.Body) != `{"task":"go"}` {
			t.Errorf("dead letter %v %s, want the root's call", m.Header, m.Body)
		}
	})
}

// TestPoisonedTurn: a run ends as poisoned when its turn could not be appended
// in too many deliveries.
func TestPoisonedTurn(t *testing.T) {
	thorough(t)
	testPoisoned(t, false)
}

// TestPoisonedOutcome: a run ends as poisoned when its outcome could not be
// stored in too many deliveries.
func TestPoisonedOutcome(t *testing.T) {
	thorough(t)
	testPoisoned(t, true)
}

// TestPoisonedChild: the parent of a poisoned child gets the failure as the
// result of its call, and goes on.
func TestPoisonedChild(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"bad", "good"}, call("bad", "x"), call("good", "x"))
		r := h.root("lead")
		bad := h.child(r, "bad", 0)
		// With a tool offered, a turn is appended to the log.
		h.agents[1].SubAgents = []string{"good"}
		h.models["bad"] = calls(use("any"))
		var cancelled atomic.Bool
		h.startWorker("w", workerOptions{Config: agentd.Config{Poison: 3}, atStep: func(s step) error {
			cancelled.CompareAndSwap(false, s.Op == "write" && s.Subject == bad.Cancel())
			if s.Op == "write" && s.Subject == bad.Log() && !cancelled.Load() {
				return errBusBroken
			}
			return nil
		}})
		h.submitTo(r, "go")
		h.expectCompleted(r, "c0="+failedCall("bad", "given up after 3 deliveries of the message that "+
			"moves it: 3 failed (the last: the bus is broken on purpose)")+"|c1=good")
		if n := len(h.requests("bad")); n != 3 {
			t.Errorf("the child's model was asked %d times, want 3", n)
		}
		if n := len(h.deadLetterReasons(bad.Dead())); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

// TestPoisonedCancel: a cancel message that cannot be carried out ends the run
// without folding it.
func TestPoisonedCancel(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"slow"}, call("slow", "x"))
		h.models["slow"] = delayed(time.Hour, says("slow"))
		r := h.root("lead")
		var broken atomic.Bool
		h.startWorker("w", workerOptions{
			Config: agentd.Config{Poison: 3},
			atStep: refuseWrites(&broken, strings.TrimPrefix(r.Log(), "axe.")),
		})
		h.submitTo(r, "go")
		h.awaitRequests("slow", 1)
		broken.Store(true)
		h.publish(r.Cancel(), "")
		h.expectFailed(r, run.KindPoisoned, "the end was delivered too often")
		if n := len(h.deadLetterReasons(r.Dead())); n == 0 {
			t.Error("the run has no dead letter, want one at least")
		}
	})
}

// TestPassingFaultCostsNoRun: a bus that fails for a while costs time and model
// calls, not the run.
func TestPassingFaultCostsNoRun(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		var broken atomic.Bool
		broken.Store(true)
		h.startWorker("w", workerOptions{atStep: refuseWrites(&broken, ".log")})
		r := h.submit("lead", "go")
		h.eventually("several attempts", func() bool { return len(h.requests("lead")) >= 5 })
		broken.Store(false)
		h.expectCompleted(r, "c0=leaf")
	})
}

// TestManyDrainsPoisonNothing: more workers in turn give a trigger back
// unfinished than a trigger may have deliveries. None of them counts, and the
// run completes on a worker with enough time.
func TestManyDrainsPoisonNothing(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(time.Minute, says("done"))
		r := h.submit("lead", "go")
		for range 2 * agentd.DefaultPoison {
			w := h.startWorker("drained", workerOptions{Config: agentd.Config{Grace: 100 * time.Millisecond}})
			before := len(h.requests(""))
			h.awaitRequests("lead", before+1)
			w.drain()
		}
		h.startWorker("last", workerOptions{})
		h.expectCompleted(r, "done")
	})
}

// TestCallDuringADrainIsNotPoisoned: a call that arrives under a drained
// worker's last pull is given back once, not as often as the pull has room.
func TestCallDuringADrainIsNotPoisoned(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		caller := define("caller", []string{"lead"})
		h.models["caller"] = turns(delayed(10*time.Second, calls(call("lead", "go"))), joinsResults)
		h.startWorker("calling", workerOptions{agents: []configs.Agent{caller}})
		w := h.startWorker("leaving", workerOptions{})
		h.awaitReady()
		// Each pull takes a second, so the call comes in the middle of
		// one.
		time.Sleep(400 * time.Millisecond)
		r := h.submit("caller", "go")
		h.awaitRequests("caller", 1)
		asked := h.requests("caller")[0].began
		time.Sleep(time.Until(asked.Add(10*time.Second - 100*time.Millisecond)))
		w.drain()
		h.startWorker("staying", workerOptions{})
		h.expectCompleted(r, "c0=lead")
		called := h.child(r, "lead", 0)
		returns := 0
		for _, m := range h.readTree(r.Tree) {
			at, err := r.Space.Parse(m.Subject)
			if err == nil && at.Run == called && at.Kind == subjects.Returned {
				returns++
			}
		}
		if returns != 1 {
			t.Errorf("the call was given back %d times, want once", returns)
		}
	})
}

// TestCorruptLogIsNotResumed: an entry of a log is missing, or has an unknown
// kind. The run ends when it would be resumed, and its model is not asked.
func TestCorruptLogIsNotResumed(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, test := range map[string]struct {
		entry run.Entry
		why   string
	}{
		"hole": {
			run.Entry{
				Index: 3, Kind: run.EntryTurn, Trigger: 1,
				Answer: &provider.Response{ToolCalls: []provider.ToolCall{call("leaf", "x")}},
				Calls:  []run.Call{{Agent: "leaf"}},
			},
			"has index 3 after 1",
		},
		"nonsense": {run.Entry{Index: 2, Kind: "nap"}, `kind "nap" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				h.models["leaf"] = delayed(30*time.Second, says("leaf"))
				first := h.startWorker("w1", workerOptions{})
				r := h.submit("lead", "go")
				h.awaitRequests("leaf", 1)
				body, err := json.Marshal(test.entry)
				if err != nil {
					t.Fatal(err)
				}
				h.write(bus.Message{Subject: r.Log(), Body: body})
				first.drain()
				h.startWorker("w2", workerOptions{})
				o := h.awaitOutcome(r, time.Hour)
				if o.Kind != run.KindPoisoned || !strings.Contains(o.Error, "corrupt history") ||
					!strings.Contains(o.Error, test.why) {
					t.Errorf("outcome %s %s, want a corrupt history with %q", o.Kind, o.Error, test.why)
				}
				time.Sleep(time.Minute)
				if n := len(h.requests("lead")); n != 1 {
					t.Errorf("the model was asked %d times, want only for the first turn", n)
				}
				if got := h.deadLetterReasons(r.Dead()); len(got) == 0 || !strings.Contains(got[0], test.why) {
					t.Errorf("dead letters %q, want one with %q", got, test.why)
				}
			})
		})
	}
}
