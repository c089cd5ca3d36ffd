package agentd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// mailing gives an agent the style mail alone.
func mailing(a *configs.Agent) { a.Delegation.Styles = configs.Styles{configs.StyleMail} }

// forkingLead makes an agent lead with the style mail. plans has the scripts of
// its runs by id: one for each request, of which the last one is repeated. A
// run without scripts answers "of" and its id.
func (h *harness) forkingLead(plans map[string][]scriptedModel) {
	h.agents = append(h.agents, define("lead", nil, mailing))
	var mu sync.Mutex
	times := map[string]int{}
	h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		plan := plans[req.runID()]
		if len(plan) == 0 {
			return says("of "+req.runID())(ctx, req)
		}
		mu.Lock()
		n := times[req.runID()]
		times[req.runID()]++
		mu.Unlock()
		return plan[min(n, len(plan)-1)](ctx, req)
	}
}

// runID is the id of the run, from the system text.
func (req *modelRequest) runID() string {
	_, after, _ := strings.Cut(req.System, "Your id is ")
	id, _, _ := strings.Cut(after, ".")
	return id
}

// requestsOf lists the requests for the model of a run.
func (h *harness) requestsOf(id string) []modelRequest {
	return slices.DeleteFunc(h.requests("lead"), func(a modelRequest) bool { return a.runID() != id })
}

// lastShownTo is the last message of the n-th request of a run. Results are
// joined.
func (h *harness) lastShownTo(id string, n int) string {
	requests := h.requestsOf(id)
	if len(requests) < n {
		h.tb.Fatalf("%s was asked %d times, want %d", id, len(requests), n)
	}
	last := requests[n-1].Messages[len(requests[n-1].Messages)-1]
	parts := []string{last.Content}
	for _, r := range last.ToolResults {
		parts = append(parts, r.Content)
	}
	return strings.TrimPrefix(strings.Join(parts, "\n"), "\n")
}

// TestCutAnswerOfAFork: the answer of a fork is cut. With on_truncated = "fail"
// its parent reads of a failure, with "warn" of a success that is not complete.
func TestCutAnswerOfAFork(t *testing.T) {
	t.Parallel()
	for on, want := range map[configs.OnTruncated]string{
		configs.FailTruncated: `"success":false,"error":"answer cut at the limit of output tokens ` +
			`(stop reason length)","partial":"half"`,
		configs.WarnTruncated: `"success":true,"summary":"half\n\n[This answer was cut`,
	} {
		t.Run(string(on), func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.forkingLead(map[string][]scriptedModel{
					"r": {
						calls(use("fork", "prompt", "one")), calls(useJSON("wait", `{"from":["r-1-0"]}`)), joinsResults,
					},
					"r-1-0": {func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
						resp, err := says("half")(ctx, req)
						resp.StopReason = "length"
						return resp, err
					}},
				})
				h.agents[0].Params.OnTruncated = on
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				r := h.submit("lead", "go")
				if o := h.awaitOutcome(r, time.Hour); !strings.Contains(o.Result, want) {
					t.Errorf("the parent has read %s, want %s", o.Result, want)
				}
				h.checkVerified()
			})
		})
	}
}

// TestForkAndWait: a parent goes on while its forks work. Each fork tells its
// parent its answer, and the parent takes it.
func TestForkAndWait(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one"), use("fork", "prompt", "two")),
				calls(useJSON("wait", `{"from":["r-1-1","r-1-0","r-1-1"]}`)), // each counts once
				joinsResults,
			},
			"r-1-0": {delayed(time.Minute, says("done one"))},
			"r-1-1": {delayed(time.Second, says(`{"success":false,"error":"no such file","partial":"half of it"}`))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		o := h.expectCompleted(r, `c0={"agents":[`+
			`{"id":"r-1-1","status":"received","messages":[{"status":"idle","success":false,"error":"no such `+
			`file","partial":"half of it"}]},`+
			`{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,"summary":"done one"}]}]}`)
		if o.Stopped != 2 {
			t.Errorf("%d forks were ended with the run, want 2", o.Stopped)
		}
		if got := h.lastShownTo("r", 2); got != "r-1-0\nr-1-1" {
			t.Errorf("the parent was shown the ids %q, want those of its two forks", got)
		}
		if waited := h.requestsOf("r")[1].began.Sub(h.requestsOf("r")[0].ended); waited > 50*time.Millisecond {
			t.Errorf("the parent had the ids of its forks after %v, want 50ms at most", waited)
		}
		if got := h.lastShownTo("r-1-0", 1); got != "one" {
			t.Errorf("the fork was asked %q, want its prompt", got)
		}
		for _, id := range []string{"r-1-0", "r-1-1"} {
			if n := len(h.requestsOf(id)); n != 1 {
				t.Errorf("%s was asked %d times, want once", id, n)
			}
		}
		h.eventually(
			"both forks end",
			func() bool { return len(h.outcomes(r.Reply(1, 0)))+len(h.outcomes(r.Reply(1, 1))) == 2 },
		)
		if o := h.outcomes(r.Reply(1, 0))[0]; o.Reason != run.ReasonParentAnswered {
			t.Errorf("the fork ended as %+v, want the reason %s", o, run.ReasonParentAnswered)
		}
		h.checkVerified()
	})
}

// TestForkInherits: a fork without a prompt knows the whole conversation of its
// parent, by a reference to the parent's log. So does a fork of that fork.
func TestForkInherits(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("check_mail")),
				calls(use("fork"), use("check_mail"), use("nonsense")),
				calls(use("wait")),
				joinsResults,
			},
			"r-2-0":     {calls(use("fork")), calls(use("wait")), joinsResults},
			"r-2-0-1-0": {says("deep")},
		})
		h.agents[0].SystemPrompt = "the words of lead"
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "the task")
		h.awaitOutcome(r, time.Hour)
		var got []string
		for _, m := range h.requestsOf("r-2-0-1-0")[0].Messages {
			line := []string{string(m.Role) + ": " + m.Content}
			for _, c := range m.ToolCalls {
				line = append(line, "["+c.Name+"]")
			}
			for _, r := range m.ToolResults {
				line = append(line, fmt.Sprintf("<%s %v %s>", r.CallID, r.IsError, r.Content))
			}
			got = append(got, strings.Join(line, " "))
		}
		forkNotice := func(id, parent string) string {
			i, err := subjects.ParsePath(id)
			p, err2 := subjects.ParsePath(parent)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			return tool.ForkNotice(i, p)
		}
		want := []string{
			"user: the task",
			"assistant: calling [check_mail]", "tool:  <c0 false no mail>",
			"assistant: calling [fork] [check_mail] [nonsense]",
			"tool:  <c0 false " + forkNotice("r-2-0", "r") + "> <c1 false This result goes to your parent.>" +
				" <c2 true Unknown tool: \"nonsense\">",
			"assistant: calling [fork]", "tool:  <c0 false " + forkNotice("r-2-0-1-0", "r-2-0") + ">",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the fork's conversation (-want +got):\n%s", diff)
		}
		wantSystem := "the words of lead\n\n## Sub-agents\n\nYour id is r-2-0-1-0. Your parent's id is r-2-0."
		if system := h.requestsOf("r-2-0-1-0")[0].System; !strings.HasPrefix(system, wantSystem) {
			t.Errorf("the system text begins otherwise:\n got %s\nwant %s", system, wantSystem)
		}
		for _, call := range h.readAll(r.Space.CallOf(r.Tree, r.Path.Child(2, 0))) {
			if strings.Contains(string(call.Body), "task") && len(call.Body) > 200 {
				t.Errorf("the call carries the conversation: %s", call.Body)
			}
		}
		wantNotice := `{"from":"r-2-0","message":{"status":"idle","success":true,` +
			`"summary":"c0={\"messages\":[{\"from\":\"r-2-0-1-0\"`
		if got := h.lastShownTo("r", 4); !strings.Contains(got, wantNotice) {
			t.Errorf("the parent was told %s, want %s in it", got, wantNotice)
		}
		h.checkVerified()
	})
}

// TestForkOfAnAdHocRun: a copy that an ad hoc run forks of itself knows its
// conversation. It is not told to submit, which it cannot. A blank prompt
// counts as none.
func TestForkOfAnAdHocRun(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, func(a *configs.Agent) {
			a.Delegation.Styles = configs.Styles{configs.StyleSpawn, configs.StyleMail}
		})}
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			switch last := req.Messages[len(req.Messages)-1]; {
			case req.runID() == "r" && req.turn == 1:
				return calls(useJSON("spawn_agent", `{"task":"the task"}`))(ctx, req)
			case req.runID() == "r-1-0" && req.turn == 1:
				return calls(use("fork", "prompt", " \n"))(ctx, req)
			case req.runID() == "r-1-0" && req.turn == 2:
				return calls(use("wait"))(ctx, req)
			case req.runID() == "r-1-0":
				return submits(last.ToolResults[0].Content)(ctx, req)
			}
			return says("done")(ctx, req)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(h.submit("lead", "go"), "done")
		fork := h.requestsOf("r-1-0-1-0")[0].Request
		if strings.Contains(fork.System, "submit") || len(fork.Messages) != 3 ||
			!strings.Contains(fork.Messages[0].Content, "the task") {
			t.Errorf("the fork was asked with the system text %s\nand the messages %+v\n"+
				"want no word of submit, and 3 messages from the task on", fork.System, fork.Messages)
		}
		h.checkVerified()
	})
}

// TestSendWakes: an idle fork that is sent a message goes on, on any worker,
// and knows its earlier turns. It is told the writer's id, and reads the
// message with check_mail.
func TestSendWakes(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")), calls(use("wait")),
				calls(
					use("send", "to", "r-1-0", "message", "and another thing"),
					useJSON("wait", `{"from":["r-1-0"]}`),
				),
				joinsResults,
			},
			"r-1-0": {says("first"), calls(use("check_mail")), joinsResults},
		})
		first := h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		notice := r.Mail(r.Path.Child(1, 0).IdleKey(1))
		h.eventually("the fork is idle", func() bool { return len(h.readAll(notice)) == 1 })
		h.startWorker("w2", workerOptions{})
		h.awaitReady()
		first.drain()
		h.expectCompleted(
			r,
			`c0=sent to r-1-0|c1={"agents":[{"id":"r-1-0","status":"received","messages":[{"status":"idle",`+
				`"success":true,`+
				`"summary":"c0={\"messages\":[{\"from\":\"r\",\"message\":\"and another thing\"}]}"}]}]}`,
		)
		if diff := cmp.Diff([]provider.Message{
			{Role: provider.User, Content: "one"},
			{Role: provider.Assistant, Content: "first"},
			{Role: provider.User, Content: "got mail from r"},
		}, h.requestsOf("r-1-0")[1].Messages); diff != "" {
			t.Errorf("the fork's second request (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestSiblingsWrite: a fork writes to its sibling, which is running, and to its
// parent, which waits. Each message is taken once, in stream order.
func TestSiblingsWrite(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one"), use("fork", "prompt", "two")),
				calls(useJSON("wait", `{"from":["r-1-0","r-1-1"]}`)),
				joinsResults,
			},
			"r-1-0": {
				// The call of r-1-1 may be stored after that of r-1-0.
				delayed(time.Second, calls(
					use("send", "to", "r-1-1", "message", "hello"),
					use("send", "to", "r-1-1", "message", "again"),
					use("send", "to", "r", "message", "so far"),
				)), says("told"),
			},
			"r-1-1": {delayed(time.Minute, calls(use("check_mail"), use("check_mail"))), joinsResults},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(
			h.submit("lead", "go"),
			`c0={"agents":[{"id":"r-1-0","status":"received","messages":["so far",{"status":"idle",`+
				`"success":true,"summary":"told"}]},`+
				`{"id":"r-1-1","status":"received","messages":[{"status":"idle","success":true,"summary":`+
				`"c0={\"messages\":[{\"from\":\"r-1-0\",\"message\":\"hello\"},`+
				`{\"from\":\"r-1-0\",\"message\":\"again\"}]}|c1=no mail"}]}]}`,
		)
		h.checkVerified()
	})
}

// TestKillAndPeerStatus: a killed run ends with all runs below it, and its
// parent gets no mail about that. A wait returns the status of each awaited
// run.
func TestKillAndPeerStatus(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(
					use("fork", "prompt", "killed"),
					use("fork", "prompt", "slow"),
					use("fork", "prompt", "quick"),
					use("fork", "prompt", "talks"),
				),
				delayed(10*time.Second, calls(use("kill", "id", "r-1-0"), use("check_mail"))),
				calls(useJSON("wait", `{"timeout":5,"from":["r-1-3","r-1-2","r-1-1","r-1-0"]}`)),
				calls(use("check_mail")), joinsResults,
			},
			"r-1-0":     {calls(use("fork", "prompt", "below")), delayed(time.Hour, says("never"))},
			"r-1-0-1-0": {delayed(time.Hour, says("never"))},
			"r-1-1":     {delayed(time.Hour, says("never"))},
			"r-1-3": {
				delayed(11*time.Second, calls(use("send", "to", "r", "message", "hello"))),
				delayed(time.Hour, says("never")),
			},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "c0=no mail")
		want := "killed r-1-0\n" +
			`{"messages":[{"from":"r-1-2","message":{"status":"idle","success":true,"summary":"of r-1-2"}}]}`
		if got := h.lastShownTo("r", 3); got != want {
			t.Errorf("the results of kill and check_mail:\n got %s\nwant %s", got, want)
		}
		want = `{"agents":[{"id":"r-1-3","status":"received","messages":["hello"]},` +
			`{"id":"r-1-2","status":"idle"},{"id":"r-1-1","status":"running"},{"id":"r-1-0","status":"dead"}]}`
		if got := h.lastShownTo("r", 4); got != want {
			t.Errorf("the result of wait:\n got %s\nwant %s", got, want)
		}
		for _, id := range []string{"r-1-0-1-0", "r-1-0", "r-1-1", "r-1-3"} {
			h.eventually(id+" was stopped", func() bool {
				requests := h.requestsOf(id)
				return requests[len(requests)-1].err != nil
			})
		}
		h.checkVerified()
	})
}

// TestMailErrors: a call of send, kill or wait with a mistake gets an error
// that says what is wrong.
func TestMailErrors(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one"), use("fork", "prompt", "two")),
				delayed(10*time.Second, calls(use("kill", "id", "r-1-1"))),
				delayed(time.Minute, calls(
					use("send", "to", "r-9-9", "message", "x"),
					use("send", "to", "no id", "message", "x"),
					use("send", "to", "r", "message", "x"),
					use("send", "to", "r-1-1", "message", "x"),
					use("send", "to", "r-1-0"),
					use("send", "message", "x"),
					use("kill", "id", "r-1-1"),
					use("kill", "id", "r"),
					use("kill"),
					use("kill", "id", "r-8-0"),
					use("wait", "timeout", "soon"),
					useJSON("wait", `{"from":["r-7-0"]}`),
					useJSON("wait", `{"from":[1]}`),
					use("wait", "from", "r"),
				)),
				joinsResults,
			},
			// The call of r-1-1 may be stored after that of r-1-0.
			"r-1-0": {delayed(time.Second, calls(use("kill", "id", "r"), use("kill", "id", "r-1-1"))), joinsResults},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		o := h.awaitOutcome(r, time.Hour)
		want := []string{
			`c0=send error: there is no agent with the id "r-9-9"`,
			`c1=send error: there is no agent with the id "no id"`,
			`c2=send error: you cannot write to yourself`,
			`c3=send error: agent "r-1-1" has ended`,
			`c4=send error: "message" argument is required`,
			`c5=send error: "to" argument is required`,
			`c6=kill error: agent "r-1-1" has ended`,
			`c7=kill error: you cannot kill yourself: answer, and you are done`,
			`c8=kill error: "id" argument is required`,
			`c9=kill error: there is no agent with the id "r-8-0"`,
			`c10=wait error: "timeout" argument: want a number of seconds above 0, not "soon"`,
			`c11=wait error: there is no agent with the id "r-7-0"`,
			`c12=wait error: "from" argument: want an array of ids`,
			`c13=wait error: you cannot wait for mail from yourself`,
		}
		if diff := cmp.Diff(want, strings.Split(o.Result, "|")); diff != "" {
			t.Errorf("the results of the lead's calls (-want +got):\n%s", diff)
		}
		if got := h.lastShownTo("r-1-0", 2); got != "kill error: agent \"r\" is above you: only those above an "+
			"agent may kill it\n"+
			`kill error: agent "r-1-1" is not below you: only those above an agent may kill it` {
			t.Errorf("r-1-0 was told %s, want an error for each kill", got)
		}
		h.checkVerified()
	})
}

// TestWaitForAWokenFork: a fork that was idle and has been written to by
// another run is running. A wait for it ends when it is idle again.
func TestWaitForAWokenFork(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")), calls(useJSON("wait", `{"from":["r-1-0"]}`)),
				delayed(10*time.Second, calls(useJSON("wait", `{"from":["r-1-0"]}`))),
				calls(useJSON("wait", `{"from":["r-1-0"]}`)), joinsResults,
			},
			"r-1-0": {says("first"), delayed(time.Minute, says("second"))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.eventually("the lead has the first idle notice", func() bool { return len(h.requestsOf("r")) == 3 })
		h.publish(h.child(r, "lead", 0).Mail(h.key("m")), `{"from":"user","text":"more"}`)
		h.expectCompleted(r, `c0={"agents":[{"id":"r-1-0","status":"idle"}]}`)
		const second = `{"agents":[{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,` +
			`"summary":"second"}]}]}`
		if got := h.lastShownTo("r", 4); got != second {
			t.Errorf("the lead was told\n got %s\nwant %s", got, second)
		}
		h.checkVerified()
	})
}

// TestMailAtTheEnd: a run is told of mail that arrived while it gave its
// answer, and the answer does not count. A run without mail tools gets a
// person's message inline.
func TestMailAtTheEnd(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")),
				delayed(time.Minute, says("too early")),
				calls(use("check_mail")),
				joinsResults,
			},
			"r-1-0": {delayed(10*time.Second, says("found"))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(
			r,
			`c0={"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"found"}}]}`,
		)
		if told := h.lastShownTo("r", 3); told != "got mail from r-1-0" {
			t.Errorf("the lead was told %q, want that there is mail from r-1-0", told)
		}
		h.checkVerified()
	})
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), delayed(time.Minute, says("first")), recites)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 2)
		h.publish(r.Mail(h.key("m")), `{"from":"user","text":"And the rest?"}`)
		h.expectCompleted(r, "user: go|assistant: calling|tool: |assistant: first|user: And the rest?")
		h.checkVerified()
	})
}

// TestInterruptBeatsMail: a run that was interrupted while it gave its answer
// is idle. Mail that arrived before the interrupt does not make it answer
// again.
func TestInterruptBeatsMail(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, mailing)}
		var r subjects.Run
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if len(h.requests("lead")) > 1 {
				return says("second")(ctx, req)
			}
			h.publish(r.Mail(h.key("m")), `{"from":"user","text":"And the rest?"}`)
			h.publish(r.Interrupt(h.key("stop")), "")
			h.eventually("both are stored", func() bool { return len(h.readAll(r.Interrupt(h.key("stop")))) == 1 })
			return says("first")(context.WithoutCancel(ctx), req)
		}
		r = h.root("lead")
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.submitTo(r, "go")
		h.eventually("the interrupt is on the log", func() bool { return len(h.entries(r)) == 1 })
		time.Sleep(time.Minute)
		if n := len(h.outcomes(r.Space.Result(r.Agent, r.Tree))); n != 0 {
			t.Fatal("the run has answered, want it idle")
		}
		h.publish(r.Mail(h.key("go")), `{"from":"user","text":"Go on."}`)
		h.expectCompleted(r, "second")
		h.checkVerified()
	})
}

// TestSendToARunWithoutMailTools: a run that writes to a run without mail tools
// is told so, and nothing is sent.
func TestSendToARunWithoutMailTools(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("top", []string{"helper", "other"}),
			define("helper", nil, mailing),
			define("other", []string{"leaf"}),
			define("leaf", nil),
		}
		h.models["top"] = turns(calls(call("helper", "x"), call("other", "x")), joinsResults)
		h.models["helper"] = turns(
			delayed(
				time.Minute,
				calls(
					use("send", "to", "r", "message", "a finding"),
					use("send", "to", "r-1-1", "message", "hello"),
				),
			),
			joinsResults,
		)
		h.models["other"] = turns(calls(call("leaf", "x")), joinsResults)
		h.models["leaf"] = delayed(5*time.Minute, says("done"))
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("top", "go")
		h.expectCompleted(
			r,
			`c0=c0=send error: agent "r" cannot read mail: what you have for it is your answer|`+
				`c1=send error: agent "r-1-1" cannot read mail|c1=c0=done`,
		)
		for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
			if strings.Contains(m.Subject, ".in.mail.") {
				t.Errorf("mail was sent to a run without mail tools: %s", m.Subject)
			}
		}
		h.checkVerified()
	})
}

// TestForkFails: after a failure of its model, a fork is idle and can be told
// to go on. The end of a fork is mail too.
func TestForkFails(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")),
				calls(use("wait")), calls(use("send", "to", "r-1-0", "message", "once more"), use("wait")),
				calls(use("wait")), fails(&provider.Error{Category: provider.Auth, Message: "no key"}),
			},
			"r-1-0": {
				calls(use("check_mail")),
				fails(&provider.Error{Category: provider.Server, Message: "down"}),
				says("better"),
				delayed(time.Hour, says("never")),
			},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.eventually("the lead waits for the third time", func() bool { return len(h.entries(r)) == 4 })
		h.publish(h.child(r, "lead", 0).Cancel(), `{"text":"enough"}`)
		h.expectFailed(r, run.KindError, "auth: no key")
		want := []string{
			`{"messages":[{"from":"r-1-0","message":{"status":"idle","success":false,"error":"server: down",` +
				`"partial":"calling"}}]}`,
			"sent to r-1-0\n" + `{"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,` +
				`"summary":"better"}}]}`,
			`{"messages":[{"from":"r-1-0","message":{"status":"dead","success":false,"error":"enough",` +
				`"error_kind":"cancelled","partial":"better"}}]}`,
		}
		got := []string{h.lastShownTo("r", 3), h.lastShownTo("r", 4), h.lastShownTo("r", 5)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("mail that the lead was shown (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestMailBeforeTheCall: mail that was written before a run's call is no mail
// of the run. Two workers show the same results of one turn. One of them reads
// the run by subject, and the other one by scan.
func TestMailBeforeTheCall(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "one"), use("check_mail")), calls(use("wait")), joinsResults},
			"r-1-0": {delayed(time.Minute, says("done"))},
		})
		r := h.root("lead")
		h.publish(r.Mail(h.key("early")), `{"from":"ops","text":"early"}`)
		first := h.startWorker("w1", workerOptions{})
		h.awaitReady()
		h.submitTo(r, "go")
		h.eventually("the lead waits", func() bool { return len(h.entries(r)) >= 2 })
		h.startWorker("w2", workerOptions{})
		h.awaitReady()
		first.drain()
		h.awaitOutcome(r, time.Hour)
		requests := h.requestsOf("r")
		if diff := cmp.Diff(requests[1].results(), requests[2].Messages[2].ToolResults); diff != "" ||
			requests[1].results()[1].Content != "no mail" {
			t.Errorf("the results of the first turn: %+v, want no mail, and the same from both workers (-w1 +w2):\n%s",
				requests[1].results(), diff)
		}
		h.checkVerified()
	})
}

// TestForksAreCounted: the usage in a fork's last idle notice is counted when
// its parent ends while the fork is idle. The fork is cancelled, with the
// reason parent_answered.
func TestForksAreCounted(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "one")), calls(use("wait")), joinsResults},
			"r-1-0": {says("done")},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		if o := h.awaitOutcome(r, time.Hour); o.Subtree.Runs != 2 || o.Subtree.ModelCalls != 4 {
			t.Errorf("%d runs and %d model calls, want 2 and 4", o.Subtree.Runs, o.Subtree.ModelCalls)
		}
		h.eventually("the fork ends", func() bool { return len(h.outcomes(r.Reply(1, 0))) == 1 })
		if o := h.outcomes(r.Reply(1, 0))[0]; o.Kind != run.KindCancelled || o.Reason != run.ReasonParentAnswered {
			t.Errorf("the fork ended as %+v, want it cancelled with the reason %s", o, run.ReasonParentAnswered)
		}
	})
}

// TestOutdatedIdleNotice: a fork that was written to while its idle notice was
// on the way is running, whatever the notice says.
func TestOutdatedIdleNotice(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one")),
				delayed(10*time.Second, calls(use("send", "to", "r-1-0", "message", "more"))),
				delayed(10*time.Second, calls(use("check_mail"))),
				calls(useJSON("wait", `{"timeout":300,"from":["r-1-0"]}`)), joinsResults,
			},
			"r-1-0": {says("first"), delayed(time.Minute, says("second"))},
		})
		late := func(s step) error { // the notice is stored after the message
			if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, "r-1-0-idle1") {
				time.Sleep(15 * time.Second)
			}
			return nil
		}
		h.startWorker("w", workerOptions{atStep: late})
		h.awaitReady()
		h.expectCompleted(
			h.submit("lead", "go"),
			`c0={"agents":[{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,`+
				`"summary":"second"}]}]}`,
		)
		h.checkVerified()
	})
}

// TestIdleNoticeOfAnInterruptedFork: a fork that a person has interrupted has
// read its earlier mail and is idle. A wait for it returns that at once.
func TestIdleNoticeOfAnInterruptedFork(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(use("fork", "prompt", "one"), use("fork", "prompt", "two")),
				delayed(10*time.Second, calls(use("send", "to", "r-1-0", "message", "more"))),
				calls(useJSON("wait", `{"timeout":3000,"from":["r-1-0"]}`)),
				calls(useJSON("wait", `{"timeout":3000,"from":["r-1-0"]}`)), joinsResults,
			},
			// The call of r-1-1 may be stored after that of r-1-0.
			"r-1-0": {
				delayed(time.Second, calls(useJSON("wait", `{"timeout":3000,"from":["r-1-1"]}`))),
				says("never"),
			},
			"r-1-1": {delayed(time.Hour, says("never"))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.eventually("the lead waits for the fork", func() bool { return len(h.entries(r)) == 3 })
		began := time.Now()
		h.publish(h.child(r, "lead", 0).Interrupt(h.key("stop")), "")
		h.expectCompleted(r, `c0={"agents":[{"id":"r-1-0","status":"idle"}]}`)
		h.tookAtMost(began, time.Minute)
		h.checkVerified()
	})
}

// TestMaxAgentsCountsForks: a fork counts in the budget of a tree, with a
// prompt and with its parent's conversation. A fork for which the budget has no
// room is refused.
func TestMaxAgentsCountsForks(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r": {
				calls(
					use("fork", "prompt", "one"),
					use("fork"),
					use("fork", "prompt", "three"),
					use("check_mail"),
				),
				calls(use("wait", "from", "r-1-0, r-1-1")),
				says("done"),
			},
			"r-1-1": {says("as a copy")},
		})
		h.agents[0].Budget.Agents = 3
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "done")
		if got := h.lastShownTo("r", 2); !strings.HasPrefix(got, "r-1-0\nr-1-1\nfork error: ") ||
			!strings.HasSuffix(got, "\nno mail") {
			t.Errorf("the results of the turn: %q, want the ids of two forks, an error and no mail", got)
		}
		if n := len(h.requests("lead")); n != 5 {
			t.Errorf("%d model calls, want 3 of the lead and one of each fork", n)
		}
		h.checkVerified()
	})
}

// TestMailFromAnotherPlace: mail to a run claims a place far ahead, as imported
// messages do. The run goes on as without it.
func TestMailFromAnotherPlace(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["leaf"] = delayed(30*time.Second, says("leaf"))
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		h.write(bus.Message{
			Subject: r.Mail(h.key("m")), Body: []byte(`{"from":"user","text":"hello"}`),
			Header: [][2]string{{"Axe-Imported", "1099511627776 2026-01-01T00:00:00Z"}},
		})
		h.expectCompleted(r, "c0=leaf")
	})
}
