package agentd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/subjects"
)

// forgetful configures a worker that caches no run: it reads each run whole at
// each trigger.
var forgetful = agentd.Config{Cache: 1}

// TestReusedMailKey: a person who publishes by hand may use one key for several
// messages. The model is shown all of them, also by a worker that reads the run
// whole.
func TestReusedMailKey(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(time.Minute, recites)
		first := h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		for i := range 3 {
			h.awaitRequests("lead", i+1)
			h.publish(r.Interrupt(h.key("stop")), "")
			h.eventually("the run is idle", func() bool { return len(h.entries(r)) == i+1 })
			h.publish(r.Mail(h.key("m")), fmt.Sprintf(`{"from":"user","text":"go on, %d"}`, i))
		}
		h.awaitRequests("lead", 4)
		first.kill()
		h.startWorker("w2", workerOptions{Config: forgetful})
		h.expectCompleted(r, "user: go|user: go on, 0|user: go on, 1|user: go on, 2")
		h.checkVerified()
	})
}

// TestRepeatedTimersFoldTheSame: the timer of a supervised turn bounds the
// review first, and the calls later. So a firing may be of the earlier purpose,
// and there may be several. A worker that reads the run whole at each trigger
// lets the same firing count each time.
func TestRepeatedTimersFoldTheSame(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"lost"}, timeout(60), supervisedBy(configs.Supervised)),
			define("watcher", nil),
			define("lost", nil),
		}
		h.models["watcher"] = says(`{"decision":"continue"}`)
		h.models["lead"] = turns(calls(call("lost", "x")), calls(call("lost", "y")), joinsResults)
		h.startWorker("w", workerOptions{Config: forgetful, agents: h.agents[:2]})
		elsewhere := h.startWorker("v", workerOptions{agents: h.agents[2:]})
		h.awaitReady()
		elsewhere.kill()
		r := h.submit("lead", "go")
		h.eventually("lost is called", func() bool { return len(h.readAll(h.child(r, "lost", 0).Call())) == 1 })
		h.publish(r.Fired(1), "{}")
		time.Sleep(90 * time.Second) // by then the calls have timed out
		h.publish(r.Fired(1), "{}")
		h.expectCompleted(r, "c0="+failedCall("lost", "timeout after 60s"))
		if n := len(h.readAll(r.Fired(1))); n != 3 {
			t.Errorf("%d firings of the timer, want 3: two by hand, and the server's", n)
		}
		h.checkVerified()
	})
}

// TestRunLargerThanOneRead: a run with more messages than one read covers is
// read whole, with its outcome and with a cancel message that is older than its
// call.
func TestRunLargerThanOneRead(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(10*time.Minute, says("never"))
		first := h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r, q := h.submit("lead", "go"), h.root("lead")
		h.awaitRequests("lead", 1)
		h.publish(q.Cancel(), "")
		// One read covers 1,024 subjects.
		for i := range 1100 {
			h.publish(r.Mail(h.key(fmt.Sprint("m", i))), `{"from":"user","text":"hello"}`)
			h.publish(q.Mail(h.key(fmt.Sprint("m", i))), `{"from":"user","text":"hello"}`)
		}
		h.eventually(
			"the mail of both runs is stored",
			func() bool { return len(h.readAll(r.All())) > 1100 && len(h.readAll(q.All())) > 1100 },
		)
		first.kill()
		h.publish(r.Space.Result(r.Agent, r.Tree), `{"status":"completed","result":"another worker's answer"}`)
		h.startWorker("w2", workerOptions{Config: forgetful})
		h.submitTo(q, "go")
		h.expectFailed(q, run.KindCancelled, "cancelled")
		time.Sleep(5 * time.Minute)
		if n := len(h.requests("lead")); n != 1 {
			t.Errorf("the model was asked %d times, want once, before its run had an outcome", n)
		}
	})
}

// TestToolRunLargerThanOneRead: a tool run with more messages than one read
// covers is read whole.
func TestToolRunLargerThanOneRead(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		root := h.root("lead")
		r := h.child(root, "lead", 0)
		head := subjects.Header{
			Tree: r.Tree, Path: r.Path, Parent: root.Agent, Depth: 1,
			Deadline: time.Now().Add(time.Hour), Reply: root.Reply(1, 0),
		}
		h.write(bus.Message{Subject: r.ToolCall(), Header: head.Pairs(), Body: []byte(`{"tool":{"name":"read_file"}}`)})
		for i := range 1100 {
			h.write(bus.Message{Subject: r.Settle(h.key(fmt.Sprint("m", i))), Body: []byte(`{"as":"again"}`)})
		}
		if s, err := history.New(h.conn).State(h.ctx, r); err != nil || s.Phase != run.Ready {
			t.Errorf("the run is %v, error %v, want ready", s.Phase, err)
		}
	})
}
