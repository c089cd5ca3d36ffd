package agentd_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// purge removes messages from the only stream of runs, as `nats stream purge`
// does: those of a subject, or all if it is "".
func (h *harness) purge(subject string) {
	_, js := h.conn.NATS()
	s, err := js.Stream(h.ctx, "AXE_RUNS")
	if err != nil {
		h.tb.Fatal(err)
	}
	if err := s.Purge(h.ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		h.tb.Fatal(err)
	}
}

// testRemovedCall removes the call of a waiting run while a leaf below that run
// asks its model. The argument of finds the run from the tree's root. Then the
// only worker drains. Another worker gets the leaf's outcome after five
// minutes. testRemovedCall returns the root and the log of that worker.
func (h *harness) testRemovedCall(of func(root subjects.Run) subjects.Run) (root subjects.Run, lines func() []string) {
	h.agents = []configs.Agent{
		define("lead", []string{"mid"}), define("mid", []string{"leaf"}), define("leaf", nil),
	}
	h.models["lead"] = turns(calls(call("mid", "1")), joinsResults)
	h.models["mid"] = turns(calls(call("leaf", "2")), joinsResults)
	h.models["leaf"] = delayed(5*time.Minute, repeats)
	first := h.startWorker("w1", workerOptions{})
	root = h.submit("lead", "x")
	h.awaitRequests("leaf", 1)
	h.purge(of(root).Call())
	first.drain()
	log, lines := storyLog(slog.LevelError)
	h.startWorker("w2", workerOptions{Config: agentd.Config{Log: log}})
	return root, lines
}

// TestRemovedRoot: a tree whose first message was removed is lost by removal,
// and not poisoned. Its id may be used again once all of it is removed.
func TestRemovedRoot(t *testing.T) {
	t.Parallel()
	thorough(t)
	withPartitions(t, 1, func(h *harness) {
		r, lines := h.testRemovedCall(func(r subjects.Run) subjects.Run { return r })
		o := h.awaitOutcome(r, 10*time.Minute)
		if o.Kind != run.KindError || !strings.HasPrefix(o.Error, "lost by removal: ") {
			t.Errorf("outcome %s %q, want an error: lost by removal", o.Kind, o.Error)
		}
		h.expectLines(lines(), "run lost by removal")
		if reasons := h.deadLetterReasons(r.Dead()); len(reasons) > 0 {
			t.Errorf("dead letters %q, want none", reasons)
		}
		if left := h.readAll(r.Timer(0)); len(left) > 0 {
			t.Errorf("the root's timer is left: %v", left)
		}
		// A late message of the tree makes no second outcome, not even
		// after the window in which the server drops a duplicate.
		time.Sleep(time.Minute)
		h.publish(r.Reply(1, 0), `{"status":"completed"}`)
		time.Sleep(time.Minute)
		if n := len(h.readAll(r.Space.Result(r.Agent, r.Tree))); n != 1 {
			t.Errorf("%d outcomes, want 1", n)
		}
		h.purge("")
		h.setModel("leaf", repeats)
		h.submitTo(r, "x")
		h.expectCompleted(r, "c0=c0=2")
	})
}

// TestRemovedChild: the parent of a run whose call was removed is told as soon
// as a worker notices, and goes on.
func TestRemovedChild(t *testing.T) {
	t.Parallel()
	thorough(t)
	withPartitions(t, 1, func(h *harness) {
		r, _ := h.testRemovedCall(func(r subjects.Run) subjects.Run { return h.child(r, "mid", 0) })
		if o := h.awaitOutcome(r, 10*time.Minute); !strings.Contains(o.Result, "lost by removal: ") {
			t.Errorf("outcome %+v, want the child's failure in it: lost by removal", o)
		}
	})
}

// TestRemovedWhileKnown: all messages of a waiting tree are removed while a
// worker has the root in memory, and another worker begins it anew. The first
// worker reads all of the root when it gets the next message. The stream begins
// with a message of another tree, so no worker notices the removal.
func TestRemovedWhileKnown(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil), define("other", nil)}
		h.models["lead"] = turns(calls(call("leaf", "1")), joinsResults)
		h.models["leaf"] = delayed(10*time.Second, repeats)
		h.models["other"] = delayed(5*time.Second, repeats)
		lead, leaf, other := h.agents[0], h.agents[1], h.agents[2]
		log, lines := storyLog(slog.LevelError)
		h.startWorker("w1", workerOptions{
			agents: []configs.Agent{lead, other}, Config: agentd.Config{Log: log, Slots: 1},
		})
		h.startWorker("w2", workerOptions{agents: []configs.Agent{leaf}})
		h.submit("other", "y")
		h.awaitRequests("other", 1)
		time.Sleep(10 * time.Second)
		root := h.submit("lead", "x")
		h.awaitRequests("leaf", 1)
		// The only slot of w1 is taken, so another worker gets the call.
		h.submit("other", "z")
		h.awaitRequests("other", 2)
		h.purge(root.Space.TreeOf(root.Tree))
		third := h.startWorker("w3", workerOptions{agents: []configs.Agent{lead}})
		h.submitTo(root, "x")
		called := h.child(root, "leaf", 0).Call()
		h.eventually("a call of the leaf", func() bool { return len(h.readAll(called)) > 0 })
		third.drain()
		h.expectCompleted(root, "c0=1")
		if got := strings.Join(lines(), "\n"); got != "" {
			t.Errorf("errors are logged:\n%s", got)
		}
	})
}

// TestBegunAnewAmongRemains: the call of a root is removed, and its submission
// comes again. The tree has a log from before, so it does not begin anew.
func TestBegunAnewAmongRemains(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "1")), joinsResults)
		h.models["leaf"] = delayed(5*time.Minute, repeats)
		first := h.startWorker("w1", workerOptions{})
		root := h.submit("lead", "x")
		h.awaitRequests("leaf", 1)
		// The submission is not acknowledged yet: its root has no timer.
		first.kill()
		h.purge(root.Call())
		h.startWorker("w2", workerOptions{})
		o := h.awaitOutcome(root, time.Minute)
		if o.Kind != run.KindError || !strings.HasPrefix(o.Error, "lost by removal: ") {
			t.Errorf("outcome %s %q, want an error: lost by removal", o.Kind, o.Error)
		}
		if n := len(h.requests("lead")); n != 1 {
			t.Errorf("the root's model was asked %d times, want 1", n)
		}
	})
}
