package agentd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// verifyAll checks all messages on the stream against the rules, as of now. No
// message is stored while it reads, since time stands still.
func (h *harness) verifyAll() verify.Report {
	h.learnClockSteps()
	c := verify.New(verify.Config{Slack: 5 * time.Second})
	for m, err := range h.conn.Scan(h.ctx, h.conn.Space().All(), 0) {
		if err != nil {
			h.tb.Fatal(err)
		}
		body, err := h.conn.Load(h.ctx, m)
		if err != nil {
			h.tb.Fatal(err)
		}
		fence, fenced := m.Fence()
		c.Add(verify.Message{
			Subject: m.Subject,
			Seq:     m.Seq,
			Time:    m.Time,
			Shift:   h.clockShift(m),
			Header:  m.Header.Get,
			Body:    body,
			Fenced:  fenced,
			Fence:   fence,
			Answer:  m.IsAnswer(),
		})
	}
	err := c.CheckArtifacts(func(tree subjects.Tree, name string) (string, error) {
		a, err := bus.ArtifactsOf(h.conn, tree).Find(h.ctx, name)
		if errors.Is(err, bus.ErrNoArtifact) {
			return "", nil
		}
		return a.Digest, err
	}, time.Time{})
	if err != nil {
		h.tb.Fatal(err)
	}
	return c.Report(h.conn.Clocks.Now())
}

// learnClockSteps takes over the steps of the server's clock that the workers
// have measured.
func (h *harness) learnClockSteps() {
	if err := presence.LearnClockSteps(h.ctx, h.conn); err != nil {
		h.tb.Logf("no steps of the clock are known: %v", err)
	}
}

// clockShift is the sum of the steps of the server's clock since a message was
// stored.
func (h *harness) clockShift(m bus.Stored) time.Duration {
	at, err := h.conn.Space().Parse(m.Subject)
	if err != nil {
		return 0
	}
	return h.conn.Clocks.Of(at.Run).Shift(m)
}

// checkVerified expects no violation on the stream.
func (h *harness) checkVerified() verify.Report {
	r := h.verifyAll()
	for _, f := range r.Findings {
		if f.Severity == verify.Violation {
			h.tb.Errorf("%v", f)
		}
	}
	return r
}

// startVictim starts a worker that is killed at one of its steps.
func (h *harness) startVictim(name string, at int) {
	h.startWorker(name, workerOptions{atStep: func(s step) error {
		if s.n == at {
			s.worker.kill()
		}
		return nil
	}})
}

// TestVerifyTrees runs trees of all kinds together while workers die, and then
// verifies the stream every three seconds. There is never a violation, and at
// the end every tree has ended.
func TestVerifyTrees(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = append(
			h.agents,
			define("wide", []string{"middle"}),
			define("narrow", []string{"middle"}, sequential),
			define("hasty", []string{"slow"}, timeout(3)),
			define("orderly", []string{"slow", "leaf"}, sequential, timeout(3)),
			define("middle", []string{"leaf"}),
			define("leaf", nil),
			define("slow", nil),
			define("odd", []string{"leaf", "nobody"}),
			define("broken", nil),
		)
		h.models["leaf"] = delayed(time.Second, repeats)
		h.models["slow"] = delayed(time.Minute, repeats)
		h.models["broken"] = fails(errBusBroken)
		h.models["middle"] = turns(splitsTask("leaf", 2), splitsTask("leaf", 1), joinsResults)
		h.models["wide"] = turns(splitsTask("middle", 3), joinsResults)
		h.models["narrow"] = turns(splitsTask("middle", 2), splitsTask("middle", 1), joinsResults)
		h.models["hasty"] = turns(splitsTask("slow", 2), splitsTask("slow", 1), joinsResults)
		h.models["orderly"] = turns(calls(call("leaf", "x"), call("slow", "y"), call("leaf", "z")), joinsResults)
		h.models["odd"] = turns(
			calls(call("nobody", "x"), call("leaf", "y"), use("rm")),
			calls(call("nobody", "x")),
			joinsResults,
		)
		for i := range 3 {
			h.startVictim(fmt.Sprintf("victim%d", i), 25*(i+1))
		}
		h.startWorker("successor", workerOptions{})
		h.awaitReady()
		n := 0
		for round := range 3 {
			for agent := range strings.FieldsSeq("wide narrow hasty orderly odd broken wide narrow unknown") {
				r := h.root(agent)
				n++
				switch n % 9 {
				// The root's deadline passes in the middle.
				case 7:
					h.submitTo(
						r,
						"go",
						[2]string{"Axe-Deadline", time.Now().Add(2500 * time.Millisecond).Format(time.RFC3339Nano)},
					)
				// The tree is cancelled, at another moment each
				// round.
				case 8:
					h.submitTo(r, "go")
					go func() {
						time.Sleep(time.Duration(round) * 1700 * time.Millisecond)
						_, _ = h.conn.Write(h.ctx, bus.Message{Subject: r.Cancel(), Fence: bus.After(r.Cancel(), 0)})
					}()
				default:
					h.submitTo(r, "go")
				}
			}
			time.Sleep(1300 * time.Millisecond)
		}
		for range 20 {
			time.Sleep(3 * time.Second)
			h.checkVerified()
		}
		time.Sleep(10 * time.Minute)
		if r := h.checkVerified(); r.Trees != n || r.UnderWay != 0 || r.Runs < 5*n {
			t.Errorf("%d trees, %d of them under way, %d runs; want %d, 0 and at least %d",
				r.Trees, r.UnderWay, r.Runs, n, 5*n)
		}
	})
}

// TestCancelsSeen: an answer carries the newest cancel message that its worker
// had seen when it asked, of any tree, and not one that arrived during the
// request.
func TestCancelsSeen(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = append(h.agents, define("lead", []string{"leaf"}), define("leaf", nil))
		h.models["lead"] = turns(delayed(10*time.Second, calls(call("leaf", "x"))), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		cancelled := func() uint64 {
			r := h.root("lead")
			seq, err := h.conn.Write(h.ctx, bus.Message{Subject: r.Cancel()})
			if err != nil {
				t.Fatal(err)
			}
			return seq
		}
		before := cancelled()
		time.Sleep(time.Second)
		r := h.root("lead")
		h.submitTo(r, "go")
		h.awaitRequests("lead", 1)
		during := cancelled()
		o := h.expectCompleted(r, "c0=leaf")
		if e := h.entries(r); len(e) != 1 || e[0].CancelsSeen != before || o.CancelsSeen != during {
			t.Errorf("entries %+v, and an outcome that knew of %d; want one entry that knew of %d, and %d",
				e, o.CancelsSeen, before, during)
		}
		h.checkVerified()
	})
}

// TestVerifyCountsOnce: an answer that stands on the log and in the outcome is
// one model call. So a tree that takes as many turns as its budget allows is no
// violation.
func TestVerifyCountsOnce(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {calls(use("fork", "prompt", "one")), calls(use("wait")), joinsResults},
		})
		h.agents[0].Budget = subjects.Budget{Turns: 4}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(
			r,
			`c0={"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"of r-1-0"}}]}`,
		)
		time.Sleep(time.Minute)
		h.checkVerified()
	})
}

// TestVerifyFindsForgedIdleNotice: a writer other than a fork cannot speak for
// it. Its forged idle notice is an ordinary message, its usage is not counted,
// and verify reports it.
func TestVerifyFindsForgedIdleNotice(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "one")), calls(useJSON("wait", `{"from":["r-1-0"]}`)), joinsResults},
			"r-1-0": {delayed(time.Minute, says("done"))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.eventually("the lead waits for its fork", func() bool { return len(h.entries(r)) == 2 })
		h.publish(
			r.Mail(h.key("k")),
			`{"from":"r-1-0","idle":true,"seen":1000,"text":"{\"status\":\"idle\",\"success\":true}",`+
				`"subtree":{"runs":9}}`,
		)
		o := h.expectCompleted(
			r,
			`c0={"agents":[{"id":"r-1-0","status":"received","messages":["{\"status\":\"idle\",\"success\":true}"]}]}`,
		)
		if o.Subtree.Runs != 1 {
			t.Errorf("%d runs are counted, want 1", o.Subtree.Runs)
		}
		report := h.verifyAll()
		if len(report.Findings) != 1 || report.Findings[0].Rule != verify.Mail || report.Violations() != 1 {
			t.Errorf("findings %+v, want one violation, about mail", report.Findings)
		}
	})
}
