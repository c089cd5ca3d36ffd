package agentd_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// heldReason is the reason of a supervisor's pause, and pauseVerdict the pause.
const (
	heldReason   = "who pays?"
	pauseVerdict = `{"decision":"pause","reason":"` + heldReason + `"}`
)

// held reports whether the first turn of a run waits for a person: its timer
// carries the supervisor's reason.
func (h *harness) held(r subjects.Run) bool {
	ms := h.readAll(r.Timer(1))
	return len(ms) > 0 && strings.Contains(string(ms[0].Body), heldReason)
}

// supervisedBy puts an agent under the supervisor, the agent "watcher".
func supervisedBy(mode configs.SupervisionMode) func(*configs.Agent) {
	return func(a *configs.Agent) {
		a.Supervision = configs.Supervision{Mode: mode, Agent: "watcher", Timeout: time.Hour}
	}
}

// supervisedLead makes a lead with a leaf and a supervisor that gives its
// verdicts one after the other, and starts a worker.
func (h *harness) supervisedLead(mode configs.SupervisionMode, verdicts ...string) {
	h.agents = append(
		h.agents,
		define("lead", []string{"leaf"}, supervisedBy(mode)),
		define("leaf", nil),
		define("watcher", nil),
	)
	n := 0
	h.models["watcher"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		n++
		return says(verdicts[min(n, len(verdicts))-1])(ctx, req)
	}
	h.models["lead"] = turns(calls(call("leaf", "x"), call("leaf", "y")), joinsResults)
	h.startWorker("w", workerOptions{})
	h.awaitReady()
}

// TestSupervised: a supervisor sees a run's task, its text and its pending
// calls. Where the verdict is continue, the turn goes on as usual, and the run
// is not told of the review.
func TestSupervised(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.supervisedLead(configs.Supervised, "I see no harm.\n```json\n{\"decision\": \"continue\"}\n```")
		r := h.submit("lead", "the \"task\"")
		o := h.expectCompleted(r, "c0=leaf|c1=leaf")
		if o.Subtree.Runs != 4 {
			t.Errorf("%d runs are counted, want 4", o.Subtree.Runs)
		}
		requests := h.requests("watcher")
		if len(requests) != 1 {
			t.Fatalf("the supervisor was asked %d times, want once", len(requests))
		}
		text := requests[0].text()
		from, to := strings.Index(text, "{"), strings.Index(text, "}\n\nAnswer")
		var got map[string]any
		if err := json.Unmarshal([]byte(text[from:to+1]), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		want := map[string]any{
			"agent": "lead", "id": "r", "task": `the "task"`, "said": []any{"calling"},
			"about_to": []any{
				map[string]any{"tool": "call_agent", "arguments": map[string]any{"agent": "leaf", "task": "x"}},
				map[string]any{"tool": "call_agent", "arguments": map[string]any{"agent": "leaf", "task": "y"}},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the JSON that the supervisor was shown (-want +got):\n%s", diff)
		}
		if h.requests("leaf")[0].began.Before(requests[0].ended) {
			t.Error("a leaf was asked before the supervisor had answered")
		}
		for _, m := range h.requests("lead")[1].Messages {
			if b, _ := json.Marshal(m); strings.Contains(string(b), "decision") {
				t.Errorf("the run was shown the verdict: %s", b)
			}
		}
		h.checkVerified()
	})
}

// TestReoriented: no call of a turn that the supervisor corrects is made. The
// run reads the correction as the results of its calls. So it is with a pause,
// where no person may answer, and with an answer that is no verdict.
func TestReoriented(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.supervisedLead(
			configs.Supervised,
			`{"decision":"reorient","correction":"ask nobody"}`,
			`{"decision":"pause","reason":"too much"}`,
			"hm",
		)
		h.models["lead"] = turns(
			calls(call("leaf", "x"), call("nobody", "y")),
			calls(call("leaf", "z")),
			calls(call("leaf", "z")),
			joinsResults,
		)
		r := h.submit("lead", "go")
		h.expectCompleted(
			r,
			"c0=Nothing of this turn was carried out: your supervisor wants a person to look at it first, and "+
				"nobody is there. the supervisor gave no verdict",
		)
		first := h.requests("lead")[1].results()
		if first[0].Content != "Nothing of this turn was carried out. Your supervisor says: ask nobody" ||
			!first[0].IsError ||
			first[1].Content != `call_agent error: agent "nobody" is not in this agent's sub_agents list` {
			t.Errorf("results of the corrected turn: %+v, want the correction, and the refusal of nobody", first)
		}
		if got := h.requests("lead")[2].results()[0].Content; got != "Nothing of this turn was carried out: your "+
			"supervisor wants a person to look at it first, and nobody is there. too much" {
			t.Errorf("result of the second turn %q, want the reason of the pause", got)
		}
		if n := len(h.requests("leaf")); n != 0 {
			t.Errorf("%d leaves were asked, want none", n)
		}
		h.checkVerified()
	})
}

// TestVerdictsStayBelow: a supervisor's correction does not reach the caller of
// the run, neither its model nor the outcome. A run without supervision is not
// reviewed.
func TestVerdictsStayBelow(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const marker = "mind the step"
		h.supervisedLead(
			configs.Supervised,
			`{"decision":"reorient","correction":"`+marker+`"}`,
			`{"decision":"continue"}`,
		)
		h.agents = append(h.agents, define("top", []string{"lead"}))
		h.models["top"] = turns(calls(call("lead", "x")), joinsResults)
		h.models["lead"] = turns(calls(call("leaf", "x")), calls(call("leaf", "y")), says("done"))
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		r := h.submit("top", "go")
		h.expectCompleted(r, "c0=done")
		if got := h.requests("lead")[1].results()[0].Content; !strings.Contains(got, marker) {
			t.Errorf("the run itself reads %q, want the correction", got)
		}
		for _, a := range h.requests("top") {
			if said := conversationText(a.Messages) + a.System; strings.Contains(said, marker) {
				t.Errorf("the run's caller was shown the correction: %s", said)
			}
		}
		for _, reply := range []string{r.Reply(1, 0), r.Space.Result(r.Agent, r.Tree)} {
			for _, m := range h.readAll(reply) {
				if strings.Contains(string(m.Body), marker) {
					t.Errorf("the outcome at %s has the correction: %s", m.Subject, m.Body)
				}
			}
		}
		requests := h.requests("watcher")
		for _, a := range requests {
			if !strings.Contains(a.text(), `"agent":"lead"`) {
				t.Errorf("the supervisor was asked about another run: %s", a.text())
			}
		}
		if len(requests) != 2 || h.countRuns(r) != 5 {
			t.Errorf("%d requests to the supervisor and %d runs, want 2 and 5", len(requests), h.countRuns(r))
		}
		h.checkVerified()
	})
}

// TestHeld: where the supervisor pauses, a person decides, at any later time
// and on any worker. The first decision counts. Until then a held turn needs no
// worker. The timeout of its calls begins when they may be made.
func TestHeld(t *testing.T) {
	t.Parallel()
	thorough(t)
	type result struct{ First, Second string }
	leaves := result{"leaf", "leaf"}
	withheld := func(reason string) result {
		text := withheldText + ": " + reason
		return result{text, text}
	}
	for _, test := range []struct {
		name string
		// The person's decision; "" for none.
		decision  string
		onTimeout configs.OnTimeout
		// The results of the two calls of the held turn.
		want result
	}{
		{name: "approved", decision: `{"approve":true}`, want: leaves},
		{
			name: "denied", decision: `{"approve":false,"reason":"not on a Sunday"}`,
			want: withheld("it was denied. not on a Sunday"),
		},
		{name: "no decision", want: withheld("nobody has approved of it within 3600s")},
		{name: "no decision is approval", onTimeout: configs.Approve, want: leaves},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.supervisedLead(configs.SupervisedHuman, pauseVerdict)
				h.workers[0].drain()
				h.agents[0].SubAgentsConf.Timeout = 60
				h.agents[0].Supervision.OnTimeout = test.onTimeout
				patient := workerOptions{Config: agentd.Config{Timeout: 5 * time.Hour}}
				first := h.startWorker("w1", patient)
				h.awaitReady()
				r := h.submit("lead", "go")
				h.eventually("the turn is held", func() bool { return h.held(r) })
				first.drain()
				time.Sleep(10 * time.Minute)
				h.startWorker("w2", patient)
				h.awaitReady()
				began := time.Now()
				if test.decision != "" {
					h.publish(r.Approve(h.key("first")), test.decision)
					h.publish(r.Approve(h.key("second")), `{"approve":true}`)
				}
				o := h.awaitOutcome(r, 4*time.Hour)
				results := h.requests("lead")[1].results()
				got := result{results[0].Content, results[1].Content}
				if diff := cmp.Diff(test.want, got); o.Status != run.StatusCompleted || diff != "" {
					t.Errorf("outcome %s %q, want it completed; results of the held turn (-want +got):\n%s",
						o.Status, o.Error, diff)
				}
				if test.decision != "" {
					h.tookAtMost(began, time.Minute)
				}
				h.checkVerified()
			})
		})
	}
}

// TestSupervisionIsInherited: a run below a supervised run has the same
// supervisor, whatever its own file says. Of the two modes the stricter one
// holds.
func TestSupervisionIsInherited(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.supervisedLead(configs.Supervised, `{"decision":"continue"}`)
		h.agents = append(h.agents, define("middle", []string{"leaf"}, func(a *configs.Agent) {
			a.Supervision = configs.Supervision{Mode: configs.SupervisedHuman, Agent: "friend", Timeout: time.Minute}
		}), define("lax", []string{"leaf"}, func(a *configs.Agent) {
			a.Supervision = configs.Supervision{Mode: configs.Supervised, Agent: "friend"}
		}), define("friend", nil))
		h.agents[0].SubAgents = []string{"middle", "lax"}
		h.models["lead"] = turns(calls(call("middle", "x"), call("lax", "x")), joinsResults)
		h.models["middle"] = turns(calls(call("leaf", "x")), joinsResults)
		h.models["lax"] = turns(calls(call("leaf", "x")), joinsResults)
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "c0=c0=leaf|c1=c0=leaf")
		if w, f := len(h.requests("watcher")), len(h.requests("friend")); w != 3 || f != 0 {
			t.Errorf("the watcher was asked %d times and the friend %d, want 3 and 0", w, f)
		}
		got := map[string]run.Mode{}
		for i, agent := range []string{"middle", "lax"} {
			got[agent] = h.entries(h.child(r, agent, i))[0].Start.Supervision.Mode
		}
		if diff := cmp.Diff(map[string]run.Mode{"middle": run.Human, "lax": run.Supervised}, got); diff != "" {
			t.Errorf("modes of the runs below (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestHumanModeIsInherited: a run without supervision of its own, below a run
// with the mode human, waits for people too.
func TestHumanModeIsInherited(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.supervisedLead(configs.SupervisedHuman, `{"decision":"continue"}`, pauseVerdict)
		h.agents = append(h.agents, define("middle", []string{"leaf"}))
		h.agents[0].SubAgents = []string{"middle"}
		h.models["lead"] = turns(calls(call("middle", "x")), joinsResults)
		h.models["middle"] = turns(calls(call("leaf", "x")), joinsResults)
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		r := h.submit("lead", "go")
		below := h.child(r, "middle", 0)
		h.eventually("the middle run is held", func() bool { return h.held(below) })
		time.Sleep(10 * time.Minute)
		if n := len(h.requests("leaf")); n != 0 {
			t.Errorf("%d leaves were asked before the decision, want none", n)
		}
		h.publish(below.Approve(h.key("k")), `{"approve":true}`)
		h.expectCompleted(r, "c0=c0=leaf")
		want := run.Supervision{Mode: run.Human, Agent: "watcher", Timeout: time.Hour}
		if diff := cmp.Diff(want, h.entries(below)[0].Start.Supervision); diff != "" {
			t.Errorf("supervision of the middle run (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestMissingSupervisorWithholds: a turn is withheld when its supervisor cannot
// be asked, or fails. An agent that needs a person is refused before its model
// is asked where no person can answer.
func TestMissingSupervisorWithholds(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.supervisedLead(configs.Supervised, "")
		h.agents[0].Supervision.Agent = "gone"
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		h.models["lead"] = turns(calls(call("leaf", "x")), joinsResults)
		const nothing = "c0=Nothing of this turn was carried out: your supervisor wants a person to look at it " +
			"first, and nobody is there. "
		h.expectCompleted(h.submit("lead", "go"), nothing+"the supervisor gone cannot be asked: no worker serves it")
		h.agents[0].Supervision.Agent = "watcher"
		h.models["watcher"] = fails(&provider.Error{Category: provider.Auth, Message: "no key"})
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		h.expectCompleted(h.submit("lead", "go"), nothing+"the supervisor failed: auth: no key")
		h.workers[0].drain()
		h.agents[0].Supervision.Mode = configs.SupervisedHuman
		h.startWorker("alone", workerOptions{Config: agentd.Config{Unattended: true}})
		h.awaitReady()
		asked := len(h.requests("lead"))
		h.expectFailed(
			h.submit("lead", "go"),
			run.KindError,
			`supervision.mode is "human", and nobody can answer here: start workers on a bus that people can `+
				`reach, and submit the task there`,
		)
		if len(h.requests("lead")) != asked {
			t.Error("the model of the refused lead was asked, want no request")
		}
		h.checkVerified()
	})
}

// TestInterrupt: a person interrupts a waiting run. Its children are cancelled
// and their outcomes collected. Then it is idle until it gets mail, and goes on
// from there.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if strings.Contains(req.text(), "quick") {
				return says("here")(ctx, req)
			}
			return delayed(time.Hour, says("never"))(ctx, req)
		}
		h.models["lead"] = turns(calls(call("leaf", "quick"), call("leaf", "slow")), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 2)
		began := time.Now()
		h.publish(r.Interrupt(h.key("stop")), "")
		h.eventually("the slow leaf has ended", func() bool { return len(h.outcomes(r.Reply(1, 1))) == 1 })
		h.tookAtMost(began, 10*time.Second)
		time.Sleep(time.Minute)
		if n := len(h.requests("lead")); n != 1 {
			t.Fatalf("the lead was asked %d times, want once until it gets mail", n)
		}
		h.publish(r.Mail(h.key("m1")), `{"from":"user","text":"Do without the slow one."}`)
		h.publish(r.Mail(h.key("m2")), `{"from":"user","text":"And hurry."}`)
		h.awaitRequests("lead", 2)
		msgs := h.requests("lead")[1].Messages
		want := []provider.Message{
			{
				Role: provider.ToolRole,
				ToolResults: []provider.ToolResult{
					{CallID: "c0", Content: "here"},
					{CallID: "c1", Content: failedCall("leaf", "stopped by the user"), IsError: true},
				},
			},
			{Role: provider.User, Content: "Do without the slow one."},
		}
		// The second message may be there already, on a line of its own.
		msgs[3].Content, _, _ = strings.Cut(msgs[3].Content, "\n")
		if diff := cmp.Diff(want, msgs[2:]); diff != "" {
			t.Errorf("the end of the lead's second request (-want +got):\n%s", diff)
		}
		if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted {
			t.Errorf("outcome %+v, want it completed", o)
		}
		h.checkVerified()
	})
}

// TestInterruptEndsCallsHeldBack: a person interrupts a run with two calls, of
// which the second one waits for the first one, since its tool writes. The
// second call ends with the interrupt. No message is stored for its run, and
// the wait does not last until the timer.
func TestInterruptEndsCallsHeldBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("mender", []string{"slow"}, withTools(dir, "write_file")), define("slow", nil),
		}
		h.models["slow"] = delayed(time.Hour, says("never"))
		h.models["mender"] = turns(
			calls(call("slow", "x"), use("write_file", "path", "a.txt", "content", "one")), joinsResults,
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("mender", "go")
		h.awaitRequests("slow", 1)
		began := time.Now()
		h.publish(root.Interrupt(h.key("stop")), "")
		h.eventually("the slow run has ended", func() bool { return len(h.outcomes(root.Reply(1, 0))) == 1 })
		h.publish(root.Mail(h.key("m")), `{"from":"user","text":"what is left?"}`)
		h.awaitRequests("mender", 2)
		h.tookAtMost(began, time.Second)
		want := "c0=" + failedCall("slow", "stopped by the user") + "|c1=stopped by the user"
		if o := h.awaitOutcome(root, time.Hour); o.Result != want {
			t.Errorf("result %q, want %q", o.Result, want)
		}
		if ms := h.readAll(h.child(root, "mender", 1).All()); len(ms) != 0 {
			t.Errorf("%d messages of the run of write_file, want none", len(ms))
		}
		h.checkVerified()
	})
}

// TestInterruptStopsForks: an interrupt of a run ends its forks, running or
// idle, and the forks of those. Their ends do not wake the run. It learns of
// them when a person writes to it.
func TestInterruptStopsForks(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one"), use("fork", "prompt", "two")),
				calls(use("wait", "timeout", "3000")),
				calls(use("wait", "timeout", "3000")), calls(use("check_mail")), joinsResults,
			},
			"r-1-0": {says("one is done")},
			"r-1-1": {calls(use("fork", "prompt", "further")), delayed(time.Hour, says("never"))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.eventually("the lead waits for the second time", func() bool { return len(h.entries(r)) == 3 })
		time.Sleep(time.Minute)
		began := time.Now()
		h.publish(r.Interrupt(h.key("stop")), "")
		for _, end := range []string{r.Reply(1, 0), r.Reply(1, 1), h.child(r, "lead", 1).Reply(1, 0)} {
			h.eventually("there is an outcome at "+end, func() bool { return len(h.outcomes(end)) == 1 })
		}
		h.tookAtMost(began, 10*time.Second)
		time.Sleep(time.Minute)
		if n := len(h.requestsOf("r")); n != 3 {
			t.Fatalf("the lead was asked %d times, want 3 until a person writes to it", n)
		}
		h.publish(r.Mail(h.key("m")), `{"from":"user","text":"what is left?"}`)
		o := h.awaitOutcome(r, time.Hour)
		told := strings.Split(h.lastShownTo("r", 4), "\n")
		slices.Sort(told[:2])
		want := []string{"got mail from r-1-0", "got mail from r-1-1", "got mail from user"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("notices of mail to the lead (-want +got):\n%s", diff)
		}
		for _, want := range []string{`"status":"dead"`, "stopped by the user", "what is left?"} {
			if !strings.Contains(o.Result, want) {
				t.Errorf("the answer has no %s: %s", want, o.Result)
			}
		}
		h.checkVerified()
	})
}

// TestInterruptAsking: an interrupt aborts the run's model request at once, on
// any worker.
func TestInterruptAsking(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = turns(delayed(time.Hour, says("never")))
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		began := time.Now()
		h.publish(r.Interrupt(h.key("stop")), "")
		h.publish(r.Interrupt(h.key("again")), "")
		h.eventually("the request was aborted", func() bool { return h.requests("lead")[0].err != nil })
		h.eventually("the run is idle", func() bool { return len(h.entries(r)) == 1 })
		h.tookAtMost(began, time.Second)
		if e := h.entries(r)[0]; e.Kind != run.EntryIdle || e.End == nil || *e.End != run.EndInterrupted() {
			t.Errorf("entry %+v, want an idle one that ended by the interrupt", e)
		}
		h.models["lead"] = recites
		h.publish(r.Mail(h.key("m")), `{"from":"user","text":"what now?"}`)
		h.expectCompleted(r, "user: go|user: what now?")
		h.checkVerified()
	})
}

// TestMailBehindAnInterrupt: a person interrupts a run that mail has woken, and
// writes to it, while no worker is there. The mail wakes the run.
func TestMailBehindAnInterrupt(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(time.Hour, says("never"))
		w1 := h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		h.publish(r.Interrupt(h.key("stop")), "")
		h.eventually("the run is idle", func() bool { return len(h.entries(r)) == 1 })
		h.publish(r.Mail(h.key("m1")), `{"from":"user","text":"and now?"}`)
		h.awaitRequests("lead", 2)
		w1.kill()
		h.publish(r.Interrupt(h.key("again")), "")
		h.publish(r.Mail(h.key("m2")), `{"from":"user","text":"go on"}`)
		h.setModel("lead", recites)
		h.startWorker("w2", workerOptions{})
		h.expectCompleted(r, "user: go|user: and now?|user: go on")
		h.checkVerified()
	})
}

// TestInterruptBounded: an interrupted run becomes idle though its children do
// not answer. An idle run that gets no mail ends at its deadline.
func TestInterruptBounded(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"lost"}), define("lost", nil)}
		h.models["lead"] = turns(calls(call("lost", "x")), recites)
		h.startWorker("w", workerOptions{
			Config: agentd.Config{Timeout: 10 * time.Minute}, agents: h.agents[:1],
		})
		elsewhere := h.startWorker("v", workerOptions{agents: h.agents[1:]})
		h.awaitReady()
		elsewhere.kill()
		r, q := h.submit("lead", "go"), h.submit("lead", "go")
		h.eventually("both runs have called", func() bool { return len(h.entries(r))+len(h.entries(q)) == 2 })
		h.publish(r.Interrupt(h.key("stop")), "")
		h.publish(q.Interrupt(h.key("stop")), "")
		time.Sleep(15 * time.Second)
		h.publish(r.Mail(h.key("m")), `{"from":"user","text":"what now?"}`)
		h.expectCompleted(r, "user: go|assistant: calling|tool: |user: what now?")
		if o := h.awaitOutcome(q, 2*time.Hour); o.Kind != run.KindTimeout {
			t.Errorf("outcome %+v, want kind %s", o, run.KindTimeout)
		}
	})
}

// TestDecisionsSurviveCrashes kills the worker at each step of two trees. One
// turn is supervised, held and approved. The other run is interrupted and
// written to. Both answer in the end. Without -rapid.checks it takes one step
// in six, and with -short one in twelve of those.
func TestDecisionsSurviveCrashes(t *testing.T) {
	t.Parallel()
	for name, people := range map[string]func(*harness, subjects.Run){
		"approved": func(h *harness, r subjects.Run) {
			h.eventually("the run is held, or has ended", func() bool {
				return h.held(r) || len(h.outcomes(r.Space.Result(r.Agent, r.Tree))) > 0
			})
			h.publish(r.Approve(h.key("k")), `{"approve":true}`)
		},
		"interrupted": func(h *harness, r subjects.Run) {
			// The run waits for its leaves, or no worker has it.
			time.Sleep(4 * time.Second)
			h.publish(r.Interrupt(h.key("stop")), "")
			time.Sleep(2 * time.Minute)
			h.publish(r.Mail(h.key("m")), `{"from":"user","text":"go on"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEachStep(t, 15, 6, func(h *harness, at int) (reached bool) {
				return crashWithPeople(h, name == "approved", at, people)
			})
		})
	}
}

// crashWithPeople kills the first worker at a step while people act on the run.
// It reports whether the worker reached the step.
func crashWithPeople(h *harness, supervised bool, at int, people func(*harness, subjects.Run)) (reached bool) {
	h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil), define("watcher", nil)}
	h.models["lead"] = turns(calls(call("leaf", "x"), call("leaf", "y")), delayed(time.Second, says("done")))
	h.models["leaf"] = delayed(10*time.Second, says("leaf"))
	h.models["watcher"] = says(pauseVerdict)
	if supervised {
		supervisedBy(configs.SupervisedHuman)(&h.agents[0])
	}
	var struck atomic.Bool
	h.startWorker("victim", workerOptions{atStep: func(s step) error {
		if s.n == at {
			s.worker.kill()
			struck.Store(true)
		}
		return nil
	}})
	h.awaitReady()
	r := h.submit("lead", "go")
	time.Sleep(time.Second)
	h.startWorker("successor", workerOptions{})
	people(h, r)
	if o := h.awaitOutcome(r, 30*time.Minute); o.Status != run.StatusCompleted || o.Result != "done" {
		h.tb.Errorf("outcome %+v, want done", o)
	}
	time.Sleep(time.Minute) // unacknowledged messages are delivered again
	if n := len(h.requests("lead")); supervised && !struck.Load() && n != 2 {
		h.tb.Errorf("the lead was asked %d times, want 2", n)
	}
	h.checkVerified()
	return struck.Load()
}

// TestCopyOfAHeldTurn: a held run may be copied. The copy knows that the held
// turn was not carried out.
func TestCopyOfAHeldTurn(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.supervisedLead(configs.SupervisedHuman, pauseVerdict)
		h.models["lead"] = turns(calls(use("check_mail")), recites)
		h.agents[0].Delegation.Styles = configs.Styles{configs.StyleMail}
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		r := h.submit("lead", "go")
		h.eventually(
			"the turn is held",
			func() bool { return len(h.readAll(r.Timer(1))) == 1 && len(h.requests("watcher")) == 1 },
		)
		task := client.ForkTask{Tree: r.Tree, Path: subjects.Root, Turn: 1, Prompt: "and now?"}
		tree, err := client.New(h.conn).Fork(h.ctx, task)
		if err != nil {
			t.Fatal(err)
		}
		copied := r.Space.Run(r.Agent, tree, subjects.Root)
		h.expectCompleted(copied, "user: go|assistant: calling|tool: |user: and now?")
		if got := h.requests("lead")[1].Messages[2].ToolResults[0].Content; got != "Nothing of this turn was "+
			"carried out: nobody has approved of it yet." {
			t.Errorf("the copy is shown %q as the result of the held turn, want that no person has approved of it", got)
		}
	})
}

// TestTruncatedCallIsNotApproved: a call that is too long to be shown to the
// supervisor whole is not carried out on its verdict.
func TestTruncatedCallIsNotApproved(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.supervisedLead(configs.Supervised, `{"decision":"continue"}`)
		h.models["lead"] = turns(
			calls(call("leaf", strings.Repeat("x", 70_000)+" and then delete it all")),
			calls(call("leaf", "x")),
			joinsResults,
		)
		h.expectCompleted(h.submit("lead", "go"), "c0=leaf")
		const want = "Nothing of this turn was carried out: your supervisor wants a person to look at it first, " +
			"and nobody is there. " +
			"An argument is too long for the supervisor to see all of it."
		if got := h.requests("lead")[1].results()[0].Content; got != want {
			t.Errorf("result %q, want %q", got, want)
		}
		if first := h.requests("watcher")[0].text(); !strings.Contains(first, `"cut":{"task":70023}`) ||
			strings.Contains(first, "delete") {
			t.Errorf("the supervisor was shown %.300s, want a task that is cut, and its length of 70023", first)
		}
		if n := len(h.requests("leaf")); n != 1 {
			t.Errorf("%d leaves were asked, want only that of the second turn", n)
		}
		h.checkVerified()
	})
}

// TestHeldRunEndsAtItsDeadline: a held run waits for a person until its own
// deadline at most, whatever its caller waits and whatever a timeout would
// decide. It ends by itself. The error of a root names the reason.
func TestHeldRunEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, timeout := range map[string]time.Duration{"a root": 10 * time.Minute, "a child": time.Hour} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.supervisedLead(configs.SupervisedHuman, pauseVerdict)
				h.agents[0].Supervision.OnTimeout = configs.Approve
				h.agents = append(
					h.agents,
					define("top", []string{"lead"}, func(a *configs.Agent) { a.SubAgentsConf.Timeout = 600 }),
				)
				h.models["top"] = turns(calls(call("lead", "x")), joinsResults)
				h.workers[0].serve(h.agents...)
				h.awaitReady()
				r, began := h.root("lead"), time.Now()
				held, reply := r, r.Space.Result(r.Agent, r.Tree)
				if name == "a child" {
					r = h.root("top")
					held, reply = h.child(r, "lead", 0), r.Reply(1, 0)
				}
				h.submitTo(r, "go", due(began.Add(timeout)))
				h.eventually("the run is held", func() bool { return h.held(held) })
				waits, err := client.New(h.workers[0].conn).HeldTurns(h.ctx, r.Tree)
				if err != nil || len(waits) != 1 || waits[0].Until.Sub(began).Round(time.Second) != 10*time.Minute {
					t.Errorf("held turns %+v, error %v, want one until 10 minutes after %v", waits, err, began)
				}
				time.Sleep(9*time.Minute + 30*time.Second)
				h.eventually("the held run has ended", func() bool { return len(h.outcomes(reply)) == 1 })
				h.tookAtMost(began, 10*time.Minute+2*time.Second)
				want := "timeout after 600s"
				// A parent does not learn of its child's
				// supervision.
				if name == "a root" {
					want += ": nobody had approved of what it was about to do"
				}
				if o := h.outcomes(reply)[0]; o.Kind != run.KindTimeout || o.Error != want {
					t.Errorf("outcome %+v, want kind %s and error %q", o, run.KindTimeout, want)
				}
				if n := len(h.requests("leaf")); n != 0 {
					t.Errorf("%d leaves were asked, want none", n)
				}
				h.checkVerified()
			})
		})
	}
}

// TestHeldAmongManyTimers: the held turns of every partition are listed, and
// those of one tree, though more timers are set than a server reads at once.
func TestHeldAmongManyTimers(t *testing.T) {
	t.Parallel()
	withPartitions(t, 3, func(h *harness) {
		h.supervisedLead(configs.SupervisedHuman, pauseVerdict)
		h.workers[0].serve(h.agents...)
		h.awaitReady()
		var want []string
		partitions := map[int]bool{}
		for len(partitions) < 3 {
			r := h.submit("lead", "go")
			partitions[r.Space.PartitionOf(r.Tree)] = true
			want = append(want, r.Tree.String())
			h.eventually("the run is held", func() bool { return h.held(r) })
		}
		var timers []bus.Message
		other := h.root("lead")
		for turn := range 1100 {
			at := time.Now().Add(time.Hour)
			timers = append(timers, bus.Message{
				Subject: other.Timer(turn), Body: []byte("{}"), Timer: bus.Timer{At: at, Target: other.Fired(0)},
			})
		}
		for _, err := range h.conn.WriteAll(h.ctx, timers) {
			if err != nil {
				t.Fatal(err)
			}
		}
		c := client.New(h.conn)
		all, err := c.HeldTurns(h.ctx, subjects.Tree{})
		var got []string
		for _, held := range all {
			got = append(got, held.Run.Tree.String())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the trees with held turns are %v, error %v, want %v", got, err, want)
		}
		for _, held := range all {
			of, err := c.HeldTurns(h.ctx, held.Run.Tree)
			if err != nil || len(of) != 1 || of[0].Run != held.Run {
				t.Errorf("the held turns of %s are %+v, error %v, want its one", held.Run, of, err)
			}
		}
	})
}
