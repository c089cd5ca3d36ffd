package agentd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// startThreeLevels starts two workers with few slots for a tree of three
// levels, two wide. Its leaves take a minute. The second turn of a mid answers
// at once.
func (h *harness) startThreeLevels() {
	h.agents = []configs.Agent{define("lead", []string{"mid"}), define("mid", []string{"leaf"}), define("leaf", nil)}
	h.models["lead"] = turns(calls(call("mid", "1"), call("mid", "2")), joinsResults)
	h.models["mid"] = turns(calls(call("leaf", "1"), call("leaf", "2")), joinsResults)
	h.models["leaf"] = delayed(time.Minute, repeats)
	for _, name := range []string{"w1", "w2"} {
		h.startWorker(name, workerOptions{Config: agentd.Config{Slots: 3}})
	}
	h.awaitReady()
}

// awaitThreeLevels waits until the models of all four leaves are asked, and
// checks that both workers ask them.
func (h *harness) awaitThreeLevels() {
	h.awaitRequests("leaf", 4)
	workers := map[string]bool{}
	for _, a := range h.requests("leaf") {
		workers[a.worker.name] = true
	}
	if len(workers) != 2 {
		h.tb.Fatalf("the leaves' models are asked by %d workers, want both: %v", len(workers), workers)
	}
}

// expectStopped checks that a cancel message or a deadline at the time cut has
// stopped the requests: those in flight were aborted within 50 ms, and none was
// made later.
func (h *harness) expectStopped(requests []modelRequest, cut time.Time) {
	for _, a := range requests {
		switch {
		case a.began.After(cut):
			h.tb.Errorf("%s was asked %v after the end of its tree", a.agent, a.began.Sub(cut))
		case a.ended.IsZero():
			h.tb.Errorf("the request for %s is still in flight", a.agent)
		case a.ended.Sub(cut) > 50*time.Millisecond:
			h.tb.Errorf("the request for %s ended %v after the end of its tree, want 50 ms at most",
				a.agent, a.ended.Sub(cut))
		case a.ended.After(cut) && a.err == nil:
			h.tb.Errorf("%s answered after the end of its tree", a.agent)
		}
	}
}

// TestCancelWhileAwaiting: a cancel message for the root aborts all requests of
// the tree at once, on every worker. No model is asked afterwards, and each run
// gets an outcome or a cancel message.
func TestCancelWhileAwaiting(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		r := h.submit("lead", "go")
		h.awaitThreeLevels()
		time.Sleep(10 * time.Second)
		cut := time.Now()
		h.publish(r.Cancel(), "")
		h.expectFailed(r, run.KindCancelled, "cancelled")
		h.tookAtMost(cut, 200*time.Millisecond)
		time.Sleep(3 * time.Minute)
		h.expectStopped(h.requests(""), cut)
		if n := len(h.requests("")); n != 7 {
			t.Errorf("%d requests, want one for each of the 7 runs", n)
		}
		h.everyRunEnded(r)
	})
}

// everyRunEnded checks that each of the seven runs of the tree has an outcome
// or a cancel message.
func (h *harness) everyRunEnded(r subjects.Run) {
	calls := 0
	for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
		at, err := r.Space.Parse(m.Subject)
		if err != nil || at.Kind != subjects.Call {
			continue
		}
		calls++
		if len(h.readAll(m.Header.Get(subjects.HeaderReply))) == 0 && len(h.readAll(at.Run.Cancel())) == 0 {
			h.tb.Errorf("%s has neither an outcome nor a cancel message", at.Run)
		}
	}
	if calls != 7 {
		h.tb.Errorf("%d runs, want 7", calls)
	}
}

// TestCancelWhileAsking: a cancel message aborts the request of the run itself.
func TestCancelWhileAsking(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(time.Minute, says("too late"))
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		cut := time.Now()
		h.write(bus.Message{
			Subject: r.Cancel(),
			Fence:   bus.After(r.Cancel(), 0),
			Body:    []byte(`{"kind":"cancelled","text":"enough of it"}`),
		})
		h.expectFailed(r, run.KindCancelled, "enough of it")
		h.tookAtMost(cut, 200*time.Millisecond)
		h.expectStopped(h.requests(""), cut)
	})
}

// TestCancelBeforeCall: a cancel message that is stored before the call ends
// the run at its call.
func TestCancelBeforeCall(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"known when the worker starts": true, "learned while it serves": false} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				r := h.root("lead")
				if !early {
					h.startWorker("w", workerOptions{})
				}
				h.publish(r.Cancel(), "")
				if early {
					time.Sleep(time.Second)
					h.startWorker("w", workerOptions{})
				}
				time.Sleep(time.Second)
				h.submitTo(r, "go")
				h.expectFailed(r, run.KindCancelled, "cancelled")
				if len(h.requests("")) != 0 {
					t.Error("the model of a cancelled run was asked")
				}
			})
		})
	}
}

// TestCancelReachesUnservedChildren: no worker serves the agent of a cancelled
// run's children. Each child gets its cancel message at once, and its outcome
// when a worker for its agent starts.
func TestCancelReachesUnservedChildren(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"lonely"}, call("lonely", "x"), call("lonely", "y"))
		h.announce("lonely")
		h.startWorker("w", workerOptions{agents: h.agents[:1]})
		r := h.submit("lead", "go")
		h.eventually("both children are called", func() bool {
			return len(h.readAll(h.child(r, "lonely", 1).Call())) == 1
		})
		h.publish(r.Cancel(), "")
		h.expectFailed(r, run.KindCancelled, "cancelled")
		for i := range 2 {
			if n := len(h.readAll(h.child(r, "lonely", i).Cancel())); n != 1 {
				t.Errorf("child %d has %d cancel messages, want 1", i, n)
			}
		}
		h.startWorker("late", workerOptions{agents: h.agents[1:]})
		h.eventually("the outcomes", func() bool { return len(h.readAll(r.Replies())) == 2 })
		if o := h.outcomes(r.Reply(1, 1))[0]; o.Kind != run.KindCancelled || len(h.requests("lonely")) != 0 {
			t.Errorf("outcome %+v after %d requests, want cancelled after none", o, len(h.requests("lonely")))
		}
	})
}

// TestCallBelowACancelledPath: a call arrives below a cancelled path, as from a
// worker that did not know of the cancel message. The run ends as cancelled,
// and its model is not asked.
func TestCallBelowACancelledPath(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		boss := h.root("boss")
		r := h.child(boss, "lead", 0)
		h.publish(boss.Cancel(), "")
		time.Sleep(time.Second)
		head := subjects.Header{
			Tree: r.Tree, Path: r.Path, Parent: boss.Agent, Depth: 1, MaxDepth: 5,
			Deadline: time.Now().Add(time.Minute), Reply: boss.Reply(1, 0),
		}
		h.write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"x"}`)})
		time.Sleep(time.Second)
		if got := h.outcomes(boss.Reply(1, 0)); len(got) != 1 || got[0].Kind != run.KindCancelled {
			t.Errorf("outcomes %+v, want one of kind cancelled", got)
		}
		if len(h.requests("")) != 0 {
			t.Error("the model of a cancelled run was asked")
		}
	})
}

// TestCancelInTheMiddle: when a child is cancelled, its parent gets a failed
// result and goes on. The sibling is not affected.
func TestCancelInTheMiddle(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		r := h.submit("lead", "go")
		h.awaitThreeLevels()
		cut := time.Now()
		h.publish(h.child(r, "mid", 0).Cancel(), "")
		h.expectCompleted(r, "c0="+failedCall("mid", "cancelled")+"|c1=c0=1|c1=2")
		aborted := 0
		for _, a := range h.requests("leaf") {
			if a.err == nil {
				continue
			}
			aborted++
			if d := a.ended.Sub(cut); d > 50*time.Millisecond {
				t.Errorf("a leaf was aborted %v after the cancel message, want 50 ms at most", d)
			}
		}
		if aborted != 2 {
			t.Errorf("%d leaves were aborted, want the two below the cancelled run", aborted)
		}
		h.everyRunEnded(r)
	})
}

// TestCancelTwice: a second cancel message, and one after the end, change
// nothing.
func TestCancelTwice(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		r := h.submit("lead", "go")
		h.awaitThreeLevels()
		h.publish(r.Cancel(), "")
		h.publish(r.Cancel(), `{"kind":"timeout","text":"another reason"}`)
		h.expectFailed(r, run.KindCancelled, "cancelled")
		time.Sleep(time.Minute)
		h.publish(r.Cancel(), "")
		time.Sleep(time.Minute)
		if n := len(h.readAll(r.Space.Result(r.Agent, r.Tree))); n != 1 {
			t.Errorf("%d results, want 1", n)
		}
		if n := len(h.entries(r)); n != 2 {
			t.Errorf("%d entries, want 2, a turn and the end:\n%s", n, h.dumpTree(r.Tree))
		}
		for i := range 2 {
			if n := len(h.readAll(h.child(r, "mid", i).Cancel())); n != 1 {
				t.Errorf("child %d has %d cancel messages, want 1", i, n)
			}
		}
	})
}

// TestTwoCancelsForTwoWorkers: eight runs get two cancel messages each, and two
// workers share the deliveries. A worker with a run in its cache and a worker
// that reads the run agree that the first message counts. Each run ends at
// once.
func TestTwoCancelsForTwoWorkers(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const n = 8
		h.agents = []configs.Agent{
			define("lead", []string{"mid"}),
			define("mid", []string{"leaf"}),
			define("leaf", nil),
		}
		h.models["lead"] = turns(splitsTask("mid", n), joinsResults)
		h.models["mid"] = turns(splitsTask("leaf", 1), joinsResults)
		h.models["leaf"] = delayed(time.Minute, repeats)
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", n)
		cut := time.Now()
		var want []string
		for i := range n {
			h.publish(h.child(r, "mid", i).Cancel(), "")
			h.publish(h.child(r, "mid", i).Cancel(), "")
			want = append(want, fmt.Sprintf("c%d=%s", i, failedCall("mid", "cancelled")))
		}
		h.expectCompleted(r, strings.Join(want, "|"))
		h.tookAtMost(cut, time.Second)
	})
}

// TestCancelAfterTheEnd: a cancel message after the end leaves the result as it
// is.
func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.expectCompleted(r, "lead")
		h.publish(r.Cancel(), "")
		time.Sleep(time.Minute)
		if n := len(h.readAll(r.Space.Result(r.Agent, r.Tree))); n != 1 {
			t.Errorf("%d results, want 1", n)
		}
		if n := len(h.readAll(r.Log())); n != 0 {
			t.Errorf("%d entries on the log of a run that had ended, want none", n)
		}
	})
}

// TestCancelWithoutWorkers: a tree is cancelled while no worker runs. The next
// worker ends it and asks no model, though the calls of the leaves are
// delivered again.
func TestCancelWithoutWorkers(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		r := h.submit("lead", "go")
		h.awaitThreeLevels()
		for _, w := range h.workers {
			w.kill()
		}
		time.Sleep(time.Second)
		asks := len(h.requests(""))
		h.publish(r.Cancel(), "")
		h.startWorker("w3", workerOptions{})
		h.expectFailed(r, run.KindCancelled, "cancelled")
		time.Sleep(3 * time.Minute)
		if n := len(h.requests("")); n != asks {
			t.Errorf("%d requests after the cancel message, want none", n-asks)
		}
		h.everyRunEnded(r)
	})
}

// TestCancelManyAtWork cancels a tree of 300 runs on four workers. Each of the
// 286 leaves has a request in flight. A second later no request begins any
// more. Each run gets its outcome, and the root's outcome is cancelled.
func TestCancelManyAtWork(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const mids, leaves = 13, 22
		h.agents = []configs.Agent{
			define("lead", []string{"mid"}),
			define("mid", []string{"leaf"}),
			define("leaf", []string{"leaf"}),
		}
		h.models["lead"] = turns(splitsTask("mid", mids), joinsResults)
		h.models["mid"] = turns(splitsTask("leaf", leaves), joinsResults)
		h.models["leaf"] = delayed(10*time.Minute, repeats)
		for i := range 4 {
			h.startWorker(fmt.Sprintf("w%d", i), workerOptions{Config: agentd.Config{Slots: 80}})
		}
		h.awaitReady()
		r := h.submit("lead", "L")
		h.awaitRequests("leaf", mids*leaves)
		if n := h.countRuns(r); n != 300 {
			t.Fatalf("%d runs, want 300", n)
		}
		cut := time.Now()
		h.publish(r.Cancel(), `{"text":"enough"}`)
		h.expectFailed(r, run.KindCancelled, "enough")
		h.tookAtMost(cut, time.Second)
		ended := 0
		h.eventually("an outcome of each run", func() bool {
			ended = len(h.readAll(r.Space.Result(r.Agent, r.Tree)))
			for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
				if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Reply {
					ended++
				}
			}
			return ended == 300
		})
		took := time.Since(cut)
		time.Sleep(3 * time.Minute)
		last := time.Duration(0)
		for _, a := range h.requests("") {
			last = max(last, a.began.Sub(cut))
			if a.ended.IsZero() || a.ended.Sub(cut) > time.Second {
				t.Errorf("the request for %s ended %v after the cancel message, want 1 s at most",
					a.agent, a.ended.Sub(cut))
			}
		}
		if last > time.Second {
			t.Errorf("a request began %v after the cancel message, want 1 s at most", last)
		}
		h.checkTree(r.Tree)
		t.Logf("all 300 had ended %v after the cancel message", took)
	})
}
