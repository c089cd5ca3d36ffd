package agentd_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// TestShortTreeSetsNoTimer: a root that ends at once is two stored messages, a
// parent of one child five, and its submission is removed.
func TestShortTreeSetsNoTimer(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		timeout(60)(&h.agents[0])
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		for agent, want := range map[string]uint64{"leaf": 2, "lead": 5} {
			before := h.lastSeq()
			h.awaitOutcome(h.submit(agent, "go"), time.Minute)
			time.Sleep(3 * time.Second)
			if n := h.lastSeq() - before; n != want {
				t.Errorf("a tree of %s is %d stored messages, want %d", agent, n, want)
			}
		}
		if m, ok, err := h.conn.QueuedSubmission(h.ctx, h.conn.Space().Submissions()); ok || err != nil {
			t.Errorf("submission %s is still stored, error %v", m.Subject, err)
		}
	})
}

// lastSeq returns the last sequence of the first stream of runs.
func (h *harness) lastSeq() (last uint64) {
	for _, m := range h.readAll(">") {
		last = max(last, m.Seq)
	}
	return last
}

// TestLongTreeSetsItsTimers: a root and a turn that last for more than a second
// have a timer each. The submission is removed then.
func TestLongTreeSetsItsTimers(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		timeout(60)(&h.agents[0])
		h.models["leaf"] = delayed(30*time.Second, repeats)
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		time.Sleep(3 * time.Second)
		for turn := range 2 {
			if n := len(h.readAll(r.Timer(turn))); n != 1 {
				t.Errorf("%d timers of turn %d, want 1", n, turn)
			}
		}
		if m, ok, err := h.conn.QueuedSubmission(h.ctx, h.conn.Space().Submissions()); ok || err != nil {
			t.Errorf("submission %s is still stored, error %v", m.Subject, err)
		}
		h.expectCompleted(r, "c0=x")
		h.expectNoTimer()
	})
}

// TestWorkerDiesBeforeTheTimerOfARoot: a worker dies half a second after it has
// called a root. No other worker serves the agent, and the root ends at its
// deadline all the same.
func TestWorkerDiesBeforeTheTimerOfARoot(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(time.Hour, says("late"))
		limits := agentd.Config{Timeout: 90 * time.Second}
		victim := h.startWorker("victim", workerOptions{Config: limits})
		from := time.Now()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		time.Sleep(500 * time.Millisecond)
		victim.kill()
		h.startWorker("other", workerOptions{Config: limits, agents: []configs.Agent{define("other", nil)}})
		h.expectFailed(r, run.KindTimeout, "timeout after 90s")
		h.tookAtMost(from, 2*time.Minute)
	})
}

// killBeforeTheTimer kills a worker that has stored the call of a root, and has
// not set its timer yet. The root has 90 s. No worker serves its agent.
func (h *harness) killBeforeTheTimer(agent string) subjects.Run {
	h.callingLead(nil)
	h.announce(agent)
	victim := h.startWorker("victim", workerOptions{})
	h.awaitReady()
	r := h.root(agent)
	h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, "90"})
	h.eventually("the root is called", func() bool { return len(h.readAll(r.Call())) == 1 })
	victim.kill()
	return r
}

// TestRefusedAtARedelivery: a worker dies half a second after it has stored a
// root's call, before it has set the root's timer. Its successor would refuse
// the submission, since no worker serves the agent any more. The tree ends in
// time all the same.
func TestRefusedAtARedelivery(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		from := time.Now()
		r := h.killBeforeTheTimer("lonely")
		h.putCard(agentd.Card{Name: "lonely", Digest: "d", Problem: "its file is gone"})
		h.startWorker("successor", workerOptions{})
		h.expectFailed(r, run.KindTimeout, "timeout after 90s")
		h.tookAtMost(from, 2*time.Minute)
	})
}

// TestTimerOfARootBehindALag: the successor of a worker that died before it had
// set the timer of a root reads the root's call. The first read comes from a
// replica that lags behind the call. The timer is set all the same.
func TestTimerOfARootBehindALag(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		r := h.killBeforeTheTimer("lonely")
		// The server has no message of the subject that is asked for
		// in place of the call's.
		read := []byte(`"next_by_subj":"` + r.Call())
		var lags atomic.Bool
		line := &bustest.Line{Sent: func(piece []byte) {
			if at := bytes.Index(piece, read); at >= 0 && lags.CompareAndSwap(false, true) {
				copy(piece[at+len(read)-len("call"):], "none")
			}
		}}
		conn, err := bus.Open(h.ctx, bus.Config{Dial: bus.Dial{Server: h.server, Wrap: line.Wrap}})
		if err != nil {
			t.Fatal(err)
		}
		h.startWorker("successor", workerOptions{conn: conn})
		h.expectFailed(r, run.KindTimeout, "timeout after 90s")
		if !lags.Load() {
			t.Error("the successor has not read the call")
		}
	})
}

// TestWorkerDiesBeforeTheTimerOfATurn: a worker dies half a second after it has
// called a child that no worker serves. Its successor ends the wait in time.
func TestWorkerDiesBeforeTheTimerOfATurn(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"lonely"}, timeout(60))}
		h.models["lead"] = turns(calls(call("lonely", "x")), joinsResults)
		h.announce("lonely")
		victim := h.startWorker("victim", workerOptions{})
		from := time.Now()
		r := h.submit("lead", "go")
		h.eventually("the child is called", func() bool { return len(h.readAll(h.child(r, "lonely", 0).Call())) == 1 })
		time.Sleep(500 * time.Millisecond)
		victim.kill()
		h.startWorker("successor", workerOptions{})
		h.expectCompleted(r, "c0="+failedCall("lonely", "timeout after 60s"))
		h.tookAtMost(from, 65*time.Second)
	})
}

// TestDrainSetsTimers: a worker that drains sets the timers that it has put
// off, before it ends.
func TestDrainSetsTimers(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"lonely"}, timeout(60))}
		h.models["lead"] = turns(calls(call("lonely", "x")), joinsResults)
		h.announce("lonely")
		w := h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.eventually("the child is called", func() bool { return len(h.readAll(h.child(r, "lonely", 0).Call())) == 1 })
		w.drain()
		for turn := range 2 {
			if n := len(h.readAll(r.Timer(turn))); n != 1 {
				t.Errorf("%d timers of turn %d after the drain, want 1", n, turn)
			}
		}
	})
}

// TestNoTimerOfATreeOfOtherWorkers: one worker takes all submissions and serves
// the leads, another one serves the leaves. Trees of which neither worker does
// all leave no timer behind.
func TestNoTimerOfATreeOfOtherWorkers(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		timeout(60)(&h.agents[0])
		h.models["leaf"] = delayed(200*time.Millisecond, repeats)
		for i := range 2 {
			h.startWorker(fmt.Sprint("w", i), workerOptions{Config: agentd.Config{Slots: 2}})
		}
		h.awaitReady()
		for range 20 {
			h.expectCompleted(h.submit("lead", "go"), "c0=x")
		}
		time.Sleep(2 * time.Second)
		h.expectNoTimer()
	})
}

// TestRefusedWriteKeepsTheTimer: the write of an outcome fails while the timer
// of the root is put off, and then the worker dies. Another worker, which does
// not serve the agent, ends the root at its deadline.
func TestRefusedWriteKeepsTheTimer(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		limits := agentd.Config{Timeout: 90 * time.Second}
		failed := make(chan struct{})
		var once atomic.Bool
		victim := h.startWorker("victim", workerOptions{Config: limits, atStep: func(s step) error {
			if s.Op == "write" && !s.After && strings.HasPrefix(s.Subject, "axe.result.") && !once.Swap(true) {
				defer close(failed)
				return errBusBroken
			}
			return nil
		}})
		r := h.submit("lead", "go")
		<-failed
		time.Sleep(100 * time.Millisecond)
		victim.kill()
		h.startWorker("other", workerOptions{Config: limits, agents: []configs.Agent{define("other", nil)}})
		h.expectFailed(r, run.KindTimeout, "timeout after 90s")
	})
}
