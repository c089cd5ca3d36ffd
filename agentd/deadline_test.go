package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// due returns the header that sets the deadline of a submission.
func due(at time.Time) [2]string {
	return [2]string{subjects.HeaderDeadline, subjects.FormatDeadline(at)}
}

// TestDeadlineOfASubmissionOnlyNarrows: a submission's deadline can shorten the
// worker's timeout, and cannot extend it.
func TestDeadlineOfASubmissionOnlyNarrows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ asked, want time.Duration }{
		"narrower": {time.Minute, time.Minute},
		"wider":    {24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.startWorker("w", workerOptions{Config: agentd.Config{Timeout: 5 * time.Minute}})
				r, now := h.root("lead"), time.Now()
				h.submitTo(r, "go", due(now.Add(test.asked)))
				h.expectCompleted(r, "lead")
				got, err := subjects.ParseDeadline(h.readAll(r.Call())[0].Header.Get(subjects.HeaderDeadline))
				if err != nil || got.Sub(now).Round(time.Second) != test.want {
					t.Errorf("the deadline is %v after the submission, error %v; want %v", got.Sub(now), err, test.want)
				}
			})
		})
	}
}

// TestHeadersFromOutsideAreIgnored: a submission's headers do not set the
// depth, the max depth, the parent, the reply subject, the tree or the path of
// the root's call. A submission with a malformed deadline is refused.
func TestHeadersFromOutsideAreIgnored(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.startWorker("w", workerOptions{})
		r := h.root("lead")
		h.submitTo(
			r,
			"go",
			[2]string{subjects.HeaderDepth, "4"},
			[2]string{subjects.HeaderMaxDepth, "0"},
			[2]string{subjects.HeaderParent, "boss"},
			[2]string{
				subjects.HeaderReply,
				"axe.run.boss.T.r.in.1.0",
			},
			[2]string{subjects.HeaderTree, "T"},
			[2]string{subjects.HeaderPath, "r-1-0"},
		)
		h.expectCompleted(r, "lead")
		head, err := subjects.ParseCall(r, h.readAll(r.Call())[0].Header.Get)
		if err != nil || head.Depth != 0 || head.MaxDepth != subjects.MaxDepth || !head.Parent.IsZero() {
			t.Errorf("the call's header is %+v, error %v, want depth 0, max depth %d and no parent",
				head, err, subjects.MaxDepth)
		}
		bad := h.root("lead")
		h.submitTo(bad, "go", [2]string{subjects.HeaderDeadline, "tomorrow"})
		h.expectFailed(
			bad,
			run.KindError,
			`submission refused: Axe-Deadline "tomorrow": malformed: want RFC 3339, for example `+
				`2026-01-02T15:04:05.678Z`,
		)
	})
}

// TestDeadlineDuringAModelCall: the deadline aborts the request and ends the
// run.
func TestDeadlineDuringAModelCall(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(time.Hour, says("too late"))
		h.startWorker("w", workerOptions{})
		r, end := h.root("lead"), time.Now().Add(30*time.Second)
		h.submitTo(r, "go", due(end))
		h.expectFailed(r, run.KindTimeout, "timeout after 30s")
		h.tookAtMost(end, time.Second)
		if a := h.requests("lead")[0]; !a.ended.Equal(end) || a.err == nil {
			t.Errorf("the request ended %v after the deadline with error %v, want an error at the deadline",
				a.ended.Sub(end), a.err)
		}
	})
}

// TestTimeoutOfTheFile: the timeout in an agent's file bounds a tree with that
// agent as its root. A timeout of the submission replaces it. The worker's own
// timeout bounds the tree in any case.
func TestTimeoutOfTheFile(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, test := range []struct {
		name         string
		file, worker int // seconds
		submission   string
		want         string
	}{
		{name: "file", file: 60, worker: 120, want: "timeout after 60s"},
		{name: "no time", worker: 120, want: "timeout after 120s"},
		{name: "shorter submission", file: 60, worker: 120, submission: "30", want: "timeout after 30s"},
		{name: "longer submission", file: 60, worker: 120, submission: "90", want: "timeout after 90s"},
		{name: "longer than the worker allows", file: 300, worker: 120, want: "timeout after 120s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.agents[0].Timeout = test.file
				h.models["lead"] = delayed(time.Hour, says("too late"))
				allowed := time.Duration(test.worker) * time.Second
				h.startWorker("w", workerOptions{Config: agentd.Config{Timeout: allowed}})
				var headers [][2]string
				if test.submission != "" {
					headers = append(headers, [2]string{subjects.HeaderTimeout, test.submission})
				}
				r := h.root("lead")
				h.submitTo(r, "go", headers...)
				h.expectFailed(r, run.KindTimeout, test.want)
			})
		})
	}
}

// TestTimeoutOfASubAgent: the timeout in a sub-agent's file does not bound its
// runs below another root.
func TestTimeoutOfASubAgent(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"reader"}, call("reader", "read"))
		h.agents[1].Timeout = 30
		h.models["reader"] = delayed(time.Minute, says("read"))
		h.startWorker("w", workerOptions{})
		h.expectCompleted(h.submit("lead", "go"), "c0=read")
	})
}

// TestDeadlineStopsTheWholeTree: no run of a tree outlives the root's deadline.
func TestDeadlineStopsTheWholeTree(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		r, end := h.root("lead"), time.Now().Add(30*time.Second)
		h.submitTo(r, "go", due(end))
		h.awaitThreeLevels()
		h.expectFailed(r, run.KindTimeout, "timeout after 30s")
		h.tookAtMost(end, time.Second)
		time.Sleep(3 * time.Minute)
		h.expectStopped(h.requests(""), end)
		h.everyRunEnded(r)
	})
}

// TestRootWithoutWorker: the root's agent is known, but no worker serves it. A
// worker of other agents ends the root at its deadline.
func TestRootWithoutWorker(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("other", nil)}
		h.announce("lonely")
		h.startWorker("w", workerOptions{Config: agentd.Config{Timeout: 90 * time.Second}})
		from := time.Now()
		r := h.submit("lonely", "go")
		h.expectFailed(r, run.KindTimeout, "timeout after 90s")
		h.tookAtMost(from, 92*time.Second)
	})
}

// TestCancelledRootWithoutWorker: no worker serves the agent of a cancelled
// root. A worker of other agents ends the root.
func TestCancelledRootWithoutWorker(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("other", nil)}
		h.announce("lonely")
		h.startWorker("w", workerOptions{})
		r := h.submit("lonely", "go")
		time.Sleep(time.Minute)
		cut := time.Now()
		h.publish(r.Cancel(), "")
		h.expectFailed(r, run.KindCancelled, "cancelled")
		h.tookAtMost(cut, time.Second)
	})
}

// TestSlowModel: a worker keeps a call while its model takes twenty leases to
// answer. The model is asked once, and the call is acknowledged once.
func TestSlowModel(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(10*time.Minute, says("at last"))
		var acks atomic.Int64
		for _, name := range []string{"w1", "w2"} {
			h.startWorker(name, workerOptions{ackWait: 30 * time.Second, atStep: func(s step) error {
				if s.Op == "ack" && !s.After && strings.HasSuffix(s.Subject, ".call") {
					acks.Add(1)
				}
				return nil
			}})
		}
		h.awaitReady()
		h.expectCompleted(h.submit("lead", "go"), "at last")
		time.Sleep(time.Minute)
		if n := len(h.requests("")); n != 1 || acks.Load() != 1 {
			t.Errorf("%d requests and %d acknowledgements, want one of each", n, acks.Load())
		}
	})
}

// TestRootCancelledBeforeItsCallWithoutWorker: a root is cancelled before it is
// called. No worker serves its agent, so no worker receives the call. The root
// ends at its deadline, as cancelled.
func TestRootCancelledBeforeItsCallWithoutWorker(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lonely", nil)}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.workers[0].kill()
		h.startWorker("other", workerOptions{agents: []configs.Agent{define("other", nil)}})
		h.awaitReady()
		r := h.root("lonely")
		h.publish(r.Cancel(), "")
		time.Sleep(time.Second)
		h.submitTo(r, "go", due(time.Now().Add(5*time.Second)))
		h.expectFailed(r, run.KindCancelled, "cancelled")
		h.checkVerified()
	})
}

// TestRootWhoseTimerIsLate: a worker stored the root's call and died before it
// set the timer. The deadline passed before another worker took the submission
// again. The root still ends.
func TestRootWhoseTimerIsLate(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("other", nil)}
		h.announce("lonely")
		r := h.root("lonely")
		var died atomic.Bool
		w := h.startWorker("w", workerOptions{atStep: func(s step) error {
			if died.Load() || s.After && s.Subject == r.Call() {
				died.Store(true)
				return errKilled
			}
			return nil
		}})
		h.awaitReady()
		h.submitTo(r, "go", due(time.Now().Add(3*time.Second)))
		h.eventually("the worker has stored the call", died.Load)
		w.kill()
		time.Sleep(5 * time.Second) // past the deadline
		h.startWorker("successor", workerOptions{})
		h.expectFailed(r, run.KindTimeout, "timeout after 3s")
		h.checkVerified()
	})
}

// TestDistantDeadline: a worker renews the lease of a run with a deadline in a
// thousand years, which is more than a duration can hold. Its model is asked
// once.
func TestDistantDeadline(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(5*time.Minute, says("at last"))
		for _, name := range []string{"w1", "w2"} {
			h.startWorker(name, workerOptions{})
		}
		h.awaitReady()
		q := h.root("lead")
		h.callRoot(q, time.Now().AddDate(1000, 0, 0), run.Input{Task: "go"})
		h.expectCompleted(q, "at last")
		if n := len(h.requests("lead")); n != 1 {
			t.Errorf("%d requests to the model, want one", n)
		}
	})
}
