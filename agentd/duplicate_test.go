package agentd_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestSubmissionTwice: submissions with the same id are one tree, whether the
// second comes at once, during the run or after its end.
func TestSubmissionTwice(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["leaf"] = delayed(30*time.Second, says("leaf"))
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		r := h.root("lead")
		h.submitTo(r, "go")
		h.submitTo(r, "go")
		time.Sleep(10 * time.Second)
		h.submitTo(r, "something else")
		h.expectCompleted(r, "c0=leaf")
		h.submitTo(r, "go")
		time.Sleep(5 * time.Minute)
		for what, n := range map[string]int{
			"calls":   len(h.readAll(r.Call())),
			"results": len(h.readAll(r.Space.Result(r.Agent, r.Tree))),
			"entries": len(h.readAll(r.Log())),
			"leaves":  len(h.requests("leaf")),
		} {
			if n != 1 {
				t.Errorf("%d %s", n, what)
			}
		}
		if n := len(h.requests("lead")); n != 2 {
			t.Errorf("%d turns", n)
		}
		if _, queued, err := h.conn.QueuedSubmission(h.ctx, r.Space.Submissions()); queued || err != nil {
			t.Errorf("a submission was not acknowledged: %v", err)
		}
	})
}

// TestIDOfAnotherAgentsTree: a submission with the id of another agent's tree
// is refused with a clear error. That tree is not affected.
func TestIDOfAnotherAgentsTree(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.agents = append(h.agents, define("other", nil))
		h.models["lead"] = delayed(30*time.Second, says("done"))
		h.startWorker("w", workerOptions{})
		r, other := h.root("lead"), h.root("other")
		other.Tree = r.Tree
		h.submitTo(r, "go")
		time.Sleep(time.Second)
		h.submitTo(other, "go")
		h.expectFailed(other, run.KindError, "submission refused: id "+r.Tree.String()+" is that of another "+
			"agent's tree")
		h.expectCompleted(r, "done")
		if len(h.requests("other")) != 0 {
			t.Error("the other agent was asked")
		}
	})
}

// TestSecondCallChangesNothing: a second call of a run is refused by its fence.
// Without a fence it is stored and changes nothing.
func TestSecondCallChangesNothing(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(splitsTask("leaf", 1), joinsResults)
		h.models["leaf"] = delayed(30*time.Second, repeats)
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		for _, run := range []bus.Message{{Subject: r.Call()}, {Subject: h.child(r, "leaf", 0).Call()}} {
			first := h.readAll(run.Subject)[0]
			again := bus.Message{
				Subject: run.Subject,
				Body:    []byte(`{"task":"evil"}`),
				Fence:   bus.After(run.Subject, 0),
			}
			for k := range first.Header {
				if k[:4] == "Axe-" {
					again.Header = append(again.Header, [2]string{k, first.Header.Get(k)})
				}
			}
			_, err := h.conn.Write(h.ctx, again)
			if refused, ok := errors.AsType[*bus.ConflictError](err); !ok || refused.Last != first.Seq {
				t.Errorf("the second call of %s: %v", run.Subject, err)
			}
			again.Fence = bus.Fence{}
			h.write(again)
		}
		h.expectCompleted(r, "c0=go.0")
		time.Sleep(time.Minute)
		if n := len(h.requests("")); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}

// TestUnfencedCallsReachOtherWorkers: calls published by hand, without a fence,
// reach other workers while the first worker runs. They are no calls of the
// run.
func TestUnfencedCallsReachOtherWorkers(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(30*time.Second, repeats)
		for i := range 4 {
			h.startWorker("w"+strconv.Itoa(i), workerOptions{})
		}
		h.awaitReady()
		r := h.submit("lead", "good")
		h.awaitRequests("lead", 1)
		first := h.readAll(r.Call())[0]
		for range 4 {
			again := bus.Message{Subject: r.Call(), Body: []byte(`{"task":"evil"}`)}
			for k := range first.Header {
				if k[:4] == "Axe-" {
					again.Header = append(again.Header, [2]string{k, first.Header.Get(k)})
				}
			}
			h.write(again)
		}
		h.expectCompleted(r, "good")
		time.Sleep(time.Minute)
		if n := len(h.requests("")); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestFirstOutcomeCounts: zombies store two outcomes on one reply subject. A
// worker that has seen the first one arrive and a worker that reads both later
// show the model the same result.
func TestFirstOutcomeCounts(t *testing.T) {
	t.Parallel()
	for name, cold := range map[string]bool{"warm": false, "cold": true} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{
					define("lead", []string{"slow", "slower"}),
					define("slow", nil),
					define("slower", nil),
				}
				h.models["lead"] = turns(calls(call("slow", "x"), call("slower", "x")), joinsResults)
				h.models["slow"] = delayed(20*time.Second, says("third"))
				h.models["slower"] = delayed(time.Minute, says("slower"))
				first := h.startWorker("w1", workerOptions{agents: h.agents[:1]})
				h.startWorker("leaves", workerOptions{agents: h.agents[1:]})
				h.awaitReady()
				r := h.submit("lead", "go")
				h.awaitRequests("slower", 1)
				for _, text := range []string{"first", "second"} {
					h.write(bus.Message{
						Subject: r.Reply(1, 0),
						Body:    []byte(`{"status":"completed","result":"` + text + `"}`),
					})
					time.Sleep(time.Second)
				}
				if cold {
					first.drain()
					h.startWorker("w2", workerOptions{agents: h.agents[:1]})
				}
				h.expectCompleted(r, "c0=first|c1=slower")
				if n := len(h.readAll(r.Reply(1, 0))); n != 3 {
					t.Errorf("%d outcomes in the slot, want 3", n)
				}
			})
		})
	}
}

// TestRefusedSubmissionEndsNoRun: a second submission with the id of a run that
// is being carried out changes nothing, though it is one that a worker refuses.
func TestRefusedSubmissionEndsNoRun(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = delayed(10*time.Second, says("done"))
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("leaf", "go")
		h.awaitRequests("leaf", 1)
		h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, "soon"})
		h.submitTo(r, "\xff")
		h.expectCompleted(r, "done")
		for _, m := range h.readAll(r.Space.Result(r.Agent, r.Tree)) {
			if !strings.Contains(string(m.Body), "done") {
				t.Errorf("another outcome is stored: %s", m.Body)
			}
		}
	})
}
