package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestSubmissionThatIsNoText: a worker refuses a submission that is not text,
// and stores a failed result.
func TestSubmissionThatIsNoText(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.startWorker("w", workerOptions{})
		from := time.Now()
		h.expectFailed(h.submit("lead", "go\xff\xfe"), run.KindError, "submission refused: the task is not UTF-8 text")
		h.tookAtMost(from, time.Second)
		if len(h.requests("")) != 0 {
			t.Error("the model of a refused submission was asked")
		}
	})
}

// TestSubmissionWithoutAnAddress: a submission with a malformed subject becomes
// a dead letter with its whole body, and is not delivered again.
func TestSubmissionWithoutAnAddress(t *testing.T) {
	thorough(t)
	t.Parallel()
	for _, subject := range []string{
		"axe.submit.lead",
		"axe.submit.lead.T.more",
		"axe.submit.Lead.T",
		"axe.submit.lead.not-an-id",
		"axe.submit.-x.T",
		"axe.submit.*.T",
		"axe.submit.lead.*",
		"axe.submit.lead.>",
	} {
		t.Run(subject, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.startWorker("w", workerOptions{})
				h.publish(subject, "garbage")
				h.eventually("a dead letter", func() bool { return len(h.readAll(h.conn.Space().Dead())) > 0 })
				time.Sleep(20 * time.Second)
				dead := h.readAll(h.conn.Space().Dead())
				if len(dead) != 1 || string(dead[0].Body) != "garbage" ||
					dead[0].Header.Get("Axe-Subject") != subject ||
					!strings.Contains(dead[0].Header.Get("Axe-Reason"), "malformed") {
					t.Errorf("dead letters %v, want one with the whole submission and the reason \"malformed\"", dead)
				}
				_, queued, err := h.conn.QueuedSubmission(h.ctx, h.conn.Space().Submissions())
				if queued || err != nil {
					t.Errorf("the submission is still queued (%t), error %v", queued, err)
				}
				h.expectCompleted(h.submit("lead", "go"), "lead")
			})
		})
	}
}

// TestForgedCall: a call has a header that is malformed or contradicts its
// subject or another header. The call becomes a dead letter, and no model is
// asked.
func TestForgedCall(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, test := range map[string]struct{ header, value string }{
		"reply to another's slot": {subjects.HeaderReply, "axe.run.boss.T1.r.in.1.7"},
		"reply to another tree":   {subjects.HeaderReply, "axe.run.boss.T2.r.in.1.0"},
		"reply to anywhere":       {subjects.HeaderReply, "$JS.API.STREAM.DELETE.AXE_RUNS"},
		"depth":                   {subjects.HeaderDepth, "0"},
		"max depth":               {subjects.HeaderMaxDepth, "6"},
		"schema":                  {subjects.HeaderSchema, "2"},
		"tree":                    {subjects.HeaderTree, "T2"},
		"path":                    {subjects.HeaderPath, "r"},
		"deadline":                {subjects.HeaderDeadline, "never"},
		"parent":                  {subjects.HeaderParent, "A.B"},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				boss := h.root("boss")
				boss.Tree, _ = subjects.ParseTree("T1")
				r := h.child(boss, "lead", 0)
				head := subjects.Header{
					Tree: r.Tree, Path: r.Path, Parent: boss.Agent, Depth: 1, MaxDepth: 5,
					Deadline: time.Now().Add(time.Hour), Reply: boss.Reply(1, 0),
				}.Pairs()
				for i := range head {
					if head[i][0] == test.header {
						head[i][1] = test.value
					}
				}
				h.write(bus.Message{Subject: r.Call(), Header: head, Body: []byte(`{"task":"evil"}`)})
				h.eventually("a dead letter", func() bool { return len(h.readAll(r.Dead())) > 0 })
				time.Sleep(20 * time.Second)
				got := h.deadLetterReasons(r.Dead())
				if len(got) != 1 || !strings.HasPrefix(got[0], "malformed call: ") {
					t.Errorf("dead letters %q, want one for a malformed call", got)
				}
				if len(h.requests("")) != 0 {
					t.Error("the model of a malformed call was asked")
				}
				if ms := h.readAll(h.conn.Space().All()); len(ms) != 2 {
					t.Errorf("%d messages, want 2: the call and its dead letter", len(ms))
				}
			})
		})
	}
}

// TestDeadLetterOnce: a worker dies after it has stored a dead letter. The
// server forgets the dead letter's message ID (Nats-Msg-Id). Then the successor
// handles the same call, and stores no second dead letter.
func TestDeadLetterOnce(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		r := h.root("leaf")
		victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && s.After && s.Subject == r.Dead() {
				s.worker.kill()
			}
			return nil
		}})
		h.awaitReady()
		// A call without headers is malformed.
		h.write(bus.Message{Subject: r.Call(), Body: []byte(`{"task":"x"}`)})
		<-victim.ended
		time.Sleep(time.Minute) // the server keeps IDs for 30 s
		h.startWorker("successor", workerOptions{})
		if o := h.awaitOutcome(r, time.Hour); o.Kind != run.KindError {
			t.Errorf("outcome %s %q, want one of kind error", o.Kind, o.Error)
		}
		if got := h.deadLetterReasons(r.Dead()); len(got) != 1 {
			t.Errorf("dead letters %q, want one", got)
		}
	})
}

// TestForgedRootCall: a root's call has no headers, or a reply subject that is
// malformed or is no reply slot. A worker stores the call as a dead letter, and
// the failure as the root's result. It writes nothing to the reply subject.
func TestForgedRootCall(t *testing.T) {
	t.Parallel()
	for reply, why := range map[string]string{
		"":                               `Axe-Schema "": malformed: this worker reads schema 1`,
		"$JS.API.STREAM.DELETE.AXE_RUNS": `reply subject: subject "$JS.API.STREAM.DELETE.AXE_RUNS": malformed`,
		"axe.run.boss.T.r.call": `reply subject "axe.run.boss.T.r.call": malformed: want a reply slot ` +
			`of a run, a result or an inbox`,
		"axe.live.result.boss.T": `reply subject "axe.live.result.boss.T": malformed: want a reply ` +
			`slot of a run, a result or an inbox`,
		"_INBOX.>":                         `reply subject: subject "_INBOX.>": malformed`,
		"axe.run.lead.T.r.in.1.0.and.more": `reply subject: subject "axe.run.lead.T.r.in.1.0.and.more": malformed`,
	} {
		t.Run(reply, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				r := h.root("lead")
				m := bus.Message{Subject: r.Call(), Body: []byte(`{"task":"evil"}`)}
				if reply != "" {
					m.Header = subjects.Header{
						Tree:     r.Tree,
						Path:     r.Path,
						MaxDepth: 5,
						Deadline: time.Now().Add(time.Hour),
						Reply:    reply,
					}.Pairs()
				}
				h.write(m)
				h.expectFailed(r, run.KindError, "malformed call: "+why)
				if len(h.requests("")) != 0 || len(h.deadLetterReasons(r.Dead())) != 1 {
					t.Errorf("%d requests, want none; dead letters %q, want one",
						len(h.requests("")), h.deadLetterReasons(r.Dead()))
				}
				if ms := h.readAll(h.conn.Space().All()); len(ms) != 3 {
					t.Errorf("%d messages, want 3: the call, its dead letter and the result", len(ms))
				}
			})
		})
	}
}

// TestNoiseIsIgnored: a run ignores outcomes that no call awaits, firings of
// other turns, mail without a sender, and messages on malformed subjects.
// Messages to a run that was never called start no run.
func TestNoiseIsIgnored(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["leaf"] = delayed(10*time.Second, says("leaf"))
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		evil := `{"status":"completed","result":"evil"}`
		prefix := strings.TrimSuffix(r.Reply(1, 0), "1.0")
		for _, subject := range []string{
			r.Reply(1, 7), r.Reply(2, 0), r.Reply(9, 0), r.Fired(2), r.Fired(7),
			prefix + "mail.x", prefix + "0.0", prefix + "1.01",
			h.root("lead").Reply(1, 0), h.root("lead").Fired(0),
		} {
			h.publish(subject, evil)
		}
		h.expectCompleted(r, "c0=leaf")
		if n := len(h.requests("")); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
	})
}
