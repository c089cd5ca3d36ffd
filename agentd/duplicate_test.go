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
	thorough(t)
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
		for things, n := range map[string]int{
			"calls":   len(h.readAll(r.Call())),
			"results": len(h.readAll(r.Space.Result(r.Agent, r.Tree))),
			"entries": len(h.readAll(r.Log())),
			"leaves":  len(h.requests("leaf")),
		} {
			if n != 1 {
				t.Errorf("%d %s, want 1", n, things)
			}
		}
		if n := len(h.requests("lead")); n != 2 {
			t.Errorf("the lead's model was asked %d times, want 2", n)
		}
		if _, queued, err := h.conn.QueuedSubmission(h.ctx, r.Space.Submissions()); queued || err != nil {
			t.Errorf("a submission is still queued (%t), error %v", queued, err)
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
			t.Error("the model of a refused submission was asked")
		}
	})
}

// callAgain returns a second call of a run, with the headers of the first call
// and another task. It has no fence.
func callAgain(first bus.Stored) bus.Message {
	m := bus.Message{Subject: first.Subject, Body: []byte(`{"task":"evil"}`)}
	for k := range first.Header {
		if strings.HasPrefix(k, "Axe-") {
			m.Header = append(m.Header, [2]string{k, first.Header.Get(k)})
		}
	}
	return m
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
		for _, subject := range []string{r.Call(), h.child(r, "leaf", 0).Call()} {
			first := h.readAll(subject)[0]
			again := callAgain(first)
			again.Fence = bus.After(subject, 0)
			_, err := h.conn.Write(h.ctx, again)
			if refused, ok := errors.AsType[*bus.ConflictError](err); !ok || refused.Last != first.Seq {
				t.Errorf("write of the second call of %s: %v, want a conflict with %d", subject, err, first.Seq)
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

// TestUnfencedCallsReachOtherWorkers: other workers receive second calls of a
// run, published without a fence, while the first worker asks the run's model.
// They do not ask it.
func TestUnfencedCallsReachOtherWorkers(t *testing.T) {
	t.Parallel()
	thorough(t)
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
			h.write(callAgain(first))
		}
		h.expectCompleted(r, "good")
		time.Sleep(time.Minute)
		if n := len(h.requests("")); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// TestFirstOutcomeCounts: three outcomes are stored on one reply subject, two
// of them as by other workers that lost their leases. The parent's model reads
// the first one, whether the parent's worker receives them one by one or starts
// after the second one and reads them.
func TestFirstOutcomeCounts(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, another := range map[string]bool{"received one by one": false, "read by another worker": true} {
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
				if another {
					first.drain()
					h.startWorker("w2", workerOptions{agents: h.agents[:1]})
				}
				h.expectCompleted(r, "c0=first|c1=slower")
				if n := len(h.readAll(r.Reply(1, 0))); n != 3 {
					t.Errorf("%d outcomes in the reply slot, want 3", n)
				}
			})
		})
	}
}

// TestRefusedSubmissionEndsNoRun: a worker refuses two malformed submissions
// with the id of a tree that runs. The tree goes on, and no refusal is stored
// as its result.
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
