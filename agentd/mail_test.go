package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

func mailing(a *configs.Agent) { a.Delegation.Styles = configs.Styles{configs.StyleMail} }

// mailer is an agent lead whose runs work beside each other: a plan for each,
// by its id, one part for each of its turns, the last one again and again.
func (s *stage) mailer(plans map[string][]part) {
	s.agents = append(s.agents, define("lead", nil, mailing))
	var mu sync.Mutex
	times := map[string]int{}
	s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
		plan := plans[a.id()]
		if len(plan) == 0 {
			return says("of "+a.id())(ctx, a)
		}
		mu.Lock()
		n := times[a.id()]
		times[a.id()]++
		mu.Unlock()
		return plan[min(n, len(plan)-1)](ctx, a)
	}
}

// id is that of the run whose model is asked, as it was told.
func (a *asked) id() string {
	_, after, _ := strings.Cut(a.req.System, "Your id is ")
	id, _, _ := strings.Cut(after, ".")
	return id
}

// asksOf lists the requests for the model of a run.
func (s *stage) asksOf(id string) []asked {
	return slices.DeleteFunc(s.asked("lead"), func(a asked) bool { return a.id() != id })
}

// told is what the last message of the n-th request of a run says, results
// joined.
func (s *stage) told(id string, n int) string {
	asks := s.asksOf(id)
	if len(asks) < n {
		s.tb.Fatalf("%s was asked %d times, want %d", id, len(asks), n)
	}
	last := asks[n-1].req.Messages[len(asks[n-1].req.Messages)-1]
	parts := []string{last.Content}
	for _, r := range last.ToolResults {
		parts = append(parts, r.Content)
	}
	return strings.TrimPrefix(strings.Join(parts, "\n"), "\n")
}

func uses(name string, args ...string) provider.ToolCall {
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		m[args[i]] = args[i+1]
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return provider.NewToolCall("", name, raw)
}

// TestForkAndWait: a parent goes on while its forks work; each tells what it
// has done, and the parent takes that.
func TestForkAndWait(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one"), uses("fork", "prompt", "two")),
				calls(spawnCall("wait", `{"from":["r-1-1","r-1-0"]}`)),
				sums,
			},
			"r-1-0": {after(time.Minute, says("done one"))},
			"r-1-1": {after(time.Second, says(`{"success":false,"error":"no such file","partial":"half of it"}`))},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		o := s.completed(r, `c0={"agents":[`+
			`{"id":"r-1-1","status":"received","messages":[{"status":"idle","success":false,"error":"no such file","partial":"half of it"}]},`+
			`{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,"summary":"done one"}]}]}`)
		if o.Stopped != 2 {
			t.Errorf("%d forks were ended with the run, want 2", o.Stopped)
		}
		if got := s.told("r", 2); got != "r-1-0\nr-1-1" {
			t.Errorf("the forks' ids: %q", got)
		}
		if waited := s.asksOf("r")[1].from.Sub(s.asksOf("r")[0].to); waited > 50*time.Millisecond {
			t.Errorf("the parent had the ids of its forks after %v", waited)
		}
		if got := s.told("r-1-0", 1); got != "one" {
			t.Errorf("the fork was asked %q", got)
		}
		for _, id := range []string{"r-1-0", "r-1-1"} {
			if n := len(s.asksOf(id)); n != 1 {
				t.Errorf("%s was asked %d times", id, n)
			}
		}
		s.eventually(
			"both forks end",
			func() bool { return len(s.outcomes(r.Reply(1, 0)))+len(s.outcomes(r.Reply(1, 1))) == 2 },
		)
		if o := s.outcomes(r.Reply(1, 0))[0]; o.Reason != run.ReasonParentAnswered {
			t.Errorf("the fork ended as %+v", o)
		}
		s.clean()
	})
}

// TestForkInherits: a fork without a prompt knows the whole conversation of its
// parent, by reference to its log, and so does a fork of that one.
func TestForkInherits(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("check_mail")),
				calls(uses("fork"), uses("check_mail"), uses("nonsense")),
				calls(uses("wait")),
				sums,
			},
			"r-2-0":     {calls(uses("fork")), calls(uses("wait")), sums},
			"r-2-0-1-0": {says("deep")},
		})
		s.agents[0].SystemPrompt = "the words of lead"
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "the task")
		s.result(r, time.Hour)
		var got []string
		for _, m := range s.asksOf("r-2-0-1-0")[0].req.Messages {
			line := []string{string(m.Role) + ": " + m.Content}
			for _, c := range m.ToolCalls {
				line = append(line, "["+c.Name+"]")
			}
			for _, r := range m.ToolResults {
				line = append(line, fmt.Sprintf("<%s %v %s>", r.CallID, r.IsError, r.Content))
			}
			got = append(got, strings.Join(line, " "))
		}
		born := func(id, parent string) string {
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
			"tool:  <c0 false " + born(
				"r-2-0",
				"r",
			) + "> <c1 false This result goes to your parent.> <c2 true Unknown tool: \"nonsense\">",
			"assistant: calling [fork]", "tool:  <c0 false " + born("r-2-0-1-0", "r-2-0") + ">",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if sys := s.asksOf("r-2-0-1-0")[0].req.System; !strings.HasPrefix(
			sys,
			"the words of lead\n\n## Sub-agents\n\nYour id is r-2-0-1-0. Your parent's id is r-2-0.",
		) {
			t.Errorf("the system text: %s", sys)
		}
		for _, call := range s.all(r.Space.CallOf(r.Tree, r.Path.Child(2, 0))) {
			if strings.Contains(string(call.Body), "task") && len(call.Body) > 200 {
				t.Errorf("the call carries the conversation: %s", call.Body)
			}
		}
		if got := s.told("r", 4); !strings.Contains(
			got,
			`{"from":"r-2-0","message":{"status":"idle","success":true,"summary":"c0={\"messages\":[{\"from\":\"r-2-0-1-0\"`,
		) {
			t.Errorf("the parent was told %s", got)
		}
		s.clean()
	})
}

// TestForkOfNobodysDefinition: a copy that a run of nobody's definition forks
// of itself knows its conversation, and is not told to submit, which it cannot.
// A prompt of blanks is none.
func TestForkOfNobodysDefinition(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, func(a *configs.Agent) {
			a.Delegation.Styles = configs.Styles{configs.StyleSpawn, configs.StyleMail}
		})}
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			switch last := a.req.Messages[len(a.req.Messages)-1]; {
			case a.id() == "r" && a.turn == 1:
				return calls(spawnCall("spawn_agent", `{"task":"the task"}`))(ctx, a)
			case a.id() == "r-1-0" && a.turn == 1:
				return calls(uses("fork", "prompt", " \n"))(ctx, a)
			case a.id() == "r-1-0" && a.turn == 2:
				return calls(uses("wait"))(ctx, a)
			case a.id() == "r-1-0":
				return submits(last.ToolResults[0].Content)(ctx, a)
			}
			return says("done")(ctx, a)
		}
		s.hire("w", engagement{})
		s.settle()
		s.completed(s.submit("lead", "go"), "done")
		fork := s.asksOf("r-1-0-1-0")[0].req
		if strings.Contains(fork.System, "submit") || len(fork.Messages) != 3 ||
			!strings.Contains(fork.Messages[0].Content, "the task") {
			t.Errorf("%s\n%+v", fork.System, fork.Messages)
		}
		s.clean()
	})
}

// TestSendWakes: an idle fork goes on with what it is sent, knowing what it did
// before, on any worker; it is told who has written and takes it itself.
func TestSendWakes(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one")), calls(uses("wait")),
				calls(
					uses("send", "to", "r-1-0", "message", "and another thing"),
					spawnCall("wait", `{"from":["r-1-0"]}`),
				), sums,
			},
			"r-1-0": {says("first"), calls(uses("check_mail")), sums},
		})
		first := s.hire("w1", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.eventually("the fork is idle", func() bool { return len(s.all(r.Mail(r.Path.Child(1, 0).IdleKey(1)))) == 1 })
		s.hire("w2", engagement{})
		s.settle()
		first.leave(s)
		s.completed(
			r,
			`c0=sent to r-1-0|c1={"agents":[{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,`+
				`"summary":"c0={\"messages\":[{\"from\":\"r\",\"message\":\"and another thing\"}]}"}]}]}`,
		)
		if diff := cmp.Diff([]provider.Message{
			{Role: provider.User, Content: "one"}, {Role: provider.Assistant, Content: "first"}, {Role: provider.User, Content: "got mail from r"},
		}, s.asksOf("r-1-0")[1].req.Messages); diff != "" {
			t.Error(diff)
		}
		s.clean()
	})
}

// TestSiblingsWrite: forks that know each other's ids write to each other, and
// mail that comes while a run is idle, at work or waiting is taken once, in
// stream order.
func TestSiblingsWrite(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one"), uses("fork", "prompt", "two")),
				calls(spawnCall("wait", `{"from":["r-1-0","r-1-1"]}`)),
				sums,
			},
			"r-1-0": {
				after(time.Second, calls( // r-1-1 may be stored after it
					uses(
						"send",
						"to",
						"r-1-1",
						"message",
						"hello",
					),
					uses("send", "to", "r-1-1", "message", "again"),
					uses("send", "to", "r", "message", "so far"),
				)), says("told"),
			},
			"r-1-1": {after(time.Minute, calls(uses("check_mail"), uses("check_mail"))), sums},
		})
		s.hire("w", engagement{})
		s.settle()
		s.completed(
			s.submit("lead", "go"),
			`c0={"agents":[{"id":"r-1-0","status":"received","messages":["so far",{"status":"idle","success":true,"summary":"told"}]},`+
				`{"id":"r-1-1","status":"received","messages":[{"status":"idle","success":true,"summary":`+
				`"c0={\"messages\":[{\"from\":\"r-1-0\",\"message\":\"hello\"},{\"from\":\"r-1-0\",\"message\":\"again\"}]}|c1=no mail"}]}]}`,
		)
		s.clean()
	})
}

// TestKillAndStandings: who is killed ends with all below it and says nothing
// any more; a wait tells what each of those that it waited for is doing.
func TestKillAndStandings(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(
					uses("fork", "prompt", "killed"),
					uses("fork", "prompt", "slow"),
					uses("fork", "prompt", "quick"),
					uses("fork", "prompt", "talks"),
				),
				after(10*time.Second, calls(uses("kill", "id", "r-1-0"), uses("check_mail"))),
				calls(spawnCall("wait", `{"timeout":5,"from":["r-1-3","r-1-2","r-1-1","r-1-0"]}`)),
				calls(uses("check_mail")), sums,
			},
			"r-1-0":     {calls(uses("fork", "prompt", "below")), after(time.Hour, says("never"))},
			"r-1-0-1-0": {after(time.Hour, says("never"))},
			"r-1-1":     {after(time.Hour, says("never"))},
			"r-1-3": {
				after(11*time.Second, calls(uses("send", "to", "r", "message", "hello"))),
				after(time.Hour, says("never")),
			},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(r, "c0=no mail")
		if got, want := s.told("r", 3), "killed r-1-0\n"+`{"messages":[{"from":"r-1-2","message":{"status":"idle","success":true,"summary":"of r-1-2"}}]}`; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		want := `{"agents":[{"id":"r-1-3","status":"received","messages":["hello"]},{"id":"r-1-2","status":"idle"},{"id":"r-1-1","status":"running"},{"id":"r-1-0","status":"dead"}]}`
		if got := s.told("r", 4); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		for _, id := range []string{"r-1-0-1-0", "r-1-0", "r-1-1", "r-1-3"} {
			s.eventually(id+" was stopped", func() bool { asks := s.asksOf(id); return asks[len(asks)-1].err != nil })
		}
		s.clean()
	})
}

// TestMailErrors: each mistake has its own text.
func TestMailErrors(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one"), uses("fork", "prompt", "two")),
				after(10*time.Second, calls(uses("kill", "id", "r-1-1"))),
				after(time.Minute, calls(
					uses(
						"send",
						"to",
						"r-9-9",
						"message",
						"x",
					),
					uses("send", "to", "no id", "message", "x"),
					uses("send", "to", "r", "message", "x"),
					uses(
						"send",
						"to",
						"r-1-1",
						"message",
						"x",
					),
					uses("send", "to", "r-1-0"),
					uses("send", "message", "x"),
					uses("kill", "id", "r-1-1"),
					uses("kill", "id", "r"),
					uses("kill"),
					uses("kill", "id", "r-8-0"),
					uses(
						"wait",
						"timeout",
						"soon",
					),
					spawnCall("wait", `{"from":["r-7-0"]}`),
					spawnCall("wait", `{"from":[1]}`),
					uses("wait", "from", "r"),
				)),
				sums,
			},
			// r-1-1 may be stored after it
			"r-1-0": {after(time.Second, calls(uses("kill", "id", "r"), uses("kill", "id", "r-1-1"))), sums},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		o := s.result(r, time.Hour)
		want := strings.Join([]string{
			`c0=send error: there is no agent with the id "r-9-9"`, `c1=send error: there is no agent with the id "no id"`, `c2=send error: you cannot write to yourself`,
			`c3=send error: agent "r-1-1" has ended`, `c4=send error: "message" argument is required`, `c5=send error: "to" argument is required`,
			`c6=kill error: agent "r-1-1" has ended`, `c7=kill error: you cannot kill yourself: answer, and you are done`, `c8=kill error: "id" argument is required`,
			`c9=kill error: there is no agent with the id "r-8-0"`,
			`c10=wait error: "timeout" argument: want a number of seconds above 0, not "soon"`, `c11=wait error: there is no agent with the id "r-7-0"`,
			`c12=wait error: "from" argument: want an array of ids`, `c13=wait error: you cannot wait for mail from yourself`,
		}, "|")
		if diff := cmp.Diff(strings.Split(want, "|"), strings.Split(o.Result, "|")); diff != "" {
			t.Error(diff)
		}
		if got := s.told("r-1-0", 2); got != "kill error: agent \"r\" is above you: only those above an agent may kill it\n"+
			`kill error: agent "r-1-1" is not below you: only those above an agent may kill it` {
			t.Error(got)
		}
		s.clean()
	})
}

// TestWaitForWhoWasWoken: a fork that has told that it is idle, and that
// somebody else has written to since, is at work: who waits for it waits until
// it is idle again.
func TestWaitForWhoWasWoken(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one")), calls(spawnCall("wait", `{"from":["r-1-0"]}`)),
				after(10*time.Second, calls(spawnCall("wait", `{"from":["r-1-0"]}`))),
				calls(spawnCall("wait", `{"from":["r-1-0"]}`)), sums,
			},
			"r-1-0": {says("first"), after(time.Minute, says("second"))},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.eventually("the first word was taken", func() bool { return len(s.asksOf("r")) == 3 })
		s.pub(s.child(r, "lead", 0).Mail(s.key("m")), `{"from":"user","text":"more"}`)
		s.completed(r, `c0={"agents":[{"id":"r-1-0","status":"idle"}]}`)
		const second = `{"agents":[{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,"summary":"second"}]}]}`
		if got := s.told("r", 4); got != second {
			t.Errorf("it was told %s", got)
		}
		s.clean()
	})
}

// TestMailAtTheEnd: mail that came while a run gave its answer, or that it has
// not looked at, it is told of before that is its answer; what a person writes
// to one without mail tools it is given as it is.
func TestMailAtTheEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one")),
				after(time.Minute, says("too early")),
				calls(uses("check_mail")),
				sums,
			},
			"r-1-0": {after(10*time.Second, says("found"))},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(
			r,
			`c0={"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"found"}}]}`,
		)
		if told := s.told("r", 3); told != "got mail from r-1-0" {
			t.Errorf("it was told %q", told)
		}
		s.clean()
	})
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(calls(call("leaf", "x")), after(time.Minute, says("first")), sayNews)
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 2)
		s.pub(r.Mail(s.key("m")), `{"from":"user","text":"And the rest?"}`)
		s.completed(r, "user: go|assistant: calling|tool: |assistant: first|user: And the rest?")
		s.clean()
	})
}

// TestMailAndAnEnd: who was cancelled while it gave its answer, or was stopped,
// does not answer for that mail comes too.
func TestMailAndAnEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, mailing)}
		var r subjects.Run
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if len(s.asked("lead")) > 1 {
				return says("second")(ctx, a)
			}
			s.pub(r.Mail(s.key("m")), `{"from":"user","text":"And the rest?"}`)
			s.pub(r.Interrupt(s.key("stop")), "")
			s.eventually("both are stored", func() bool { return len(s.all(r.Interrupt(s.key("stop")))) == 1 })
			return says("first")(context.WithoutCancel(ctx), a)
		}
		r = s.root("lead")
		s.hire("w", engagement{})
		s.settle()
		s.send(r, "go")
		s.eventually("it was stopped", func() bool { return len(s.entries(r)) == 1 })
		time.Sleep(time.Minute)
		if n := len(s.outcomes(r.Space.Result(r.Agent, r.Tree))); n != 0 {
			t.Fatal("it has answered")
		}
		s.pub(r.Mail(s.key("go")), `{"from":"user","text":"Go on."}`)
		s.completed(r, "second")
		s.clean()
	})
}

// TestSendToTheDeaf: who writes to a run that cannot look for mail is told so;
// nothing is sent.
func TestSendToTheDeaf(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("top", []string{"helper", "other"}),
			define("helper", nil, mailing),
			define("other", []string{"leaf"}),
			define("leaf", nil),
		}
		s.parts["top"] = turns(calls(call("helper", "x"), call("other", "x")), sums)
		s.parts["helper"] = turns(
			after(
				time.Minute,
				calls(
					uses("send", "to", "r", "message", "a finding"),
					uses("send", "to", "r-1-1", "message", "hello"),
				),
			),
			sums,
		)
		s.parts["other"] = turns(calls(call("leaf", "x")), sums)
		s.parts["leaf"] = after(5*time.Minute, says("done"))
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("top", "go")
		s.completed(
			r,
			`c0=c0=send error: agent "r" cannot read mail: what you have for it is your answer|c1=send error: agent "r-1-1" cannot read mail|c1=c0=done`,
		)
		for _, m := range s.all(r.Space.TreeOf(r.Tree)) {
			if strings.Contains(m.Subject, ".in.mail.") {
				t.Errorf("%s was sent", m.Subject)
			}
		}
		s.clean()
	})
}

// TestForkFails: a fork whose model fails is idle and can be told to go on; one
// that is ended is mail too; a run whose own model fails ends those that it has
// forked.
func TestForkFails(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(
					uses("fork", "prompt", "one"),
				), calls(uses("wait")), calls(uses("send", "to", "r-1-0", "message", "once more"), uses("wait")),
				calls(uses("wait")), fails(&provider.Error{Category: provider.Auth, Message: "no key"}),
			},
			"r-1-0": {
				calls(uses("check_mail")),
				fails(&provider.Error{Category: provider.Server, Message: "down"}),
				says("better"),
				after(time.Hour, says("never")),
			},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.eventually("it waits again", func() bool { return len(s.entries(r)) == 4 })
		s.pub(s.child(r, "lead", 0).Cancel(), `{"text":"enough"}`)
		s.failed(r, run.KindError, "auth: no key")
		want := []string{
			`{"messages":[{"from":"r-1-0","message":{"status":"idle","success":false,"error":"server: down","partial":"calling"}}]}`,
			"sent to r-1-0\n" + `{"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"better"}}]}`,
			`{"messages":[{"from":"r-1-0","message":{"status":"dead","success":false,"error":"enough","error_kind":"cancelled","partial":"better"}}]}`,
		}
		if diff := cmp.Diff(want, []string{s.told("r", 3), s.told("r", 4), s.told("r", 5)}); diff != "" {
			t.Error(diff)
		}
		s.clean()
	})
}

// TestMailBeforeTheCall: what was written to a run before it was called is none
// of it, for whoever reads it how.
func TestMailBeforeTheCall(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r":     {calls(uses("fork", "prompt", "one"), uses("check_mail")), calls(uses("wait")), sums},
			"r-1-0": {after(time.Minute, says("done"))},
		})
		r := s.root("lead")
		s.pub(r.Mail(s.key("early")), `{"from":"ops","text":"early"}`)
		first := s.hire("w1", engagement{})
		s.settle()
		s.send(r, "go")
		s.eventually("it waits", func() bool { return len(s.entries(r)) >= 2 })
		s.hire("w2", engagement{})
		s.settle()
		first.leave(s)
		s.result(r, time.Hour)
		asks := s.asksOf("r")
		if diff := cmp.Diff(asks[1].results(), asks[2].req.Messages[2].ToolResults); diff != "" ||
			asks[1].results()[1].Content != "no mail" {
			t.Errorf("two workers have shown different results of one turn:\n%s", diff)
		}
		s.clean()
	})
}

// TestForksAreCounted: what a fork has taken by its last word is counted where
// it is at rest when its parent ends; and it is told why it is ended.
func TestForksAreCounted(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(
			map[string][]part{
				"r":     {calls(uses("fork", "prompt", "one")), calls(uses("wait")), sums},
				"r-1-0": {says("done")},
			},
		)
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		if o := s.result(r, time.Hour); o.Subtree.Runs != 2 || o.Subtree.ModelCalls != 4 {
			t.Errorf("%d runs and %d model calls, want 2 and 4", o.Subtree.Runs, o.Subtree.ModelCalls)
		}
		s.eventually("the fork ends", func() bool { return len(s.outcomes(r.Reply(1, 0))) == 1 })
		if o := s.outcomes(r.Reply(1, 0))[0]; o.Kind != run.KindCancelled || o.Reason != run.ReasonParentAnswered {
			t.Errorf("%+v", o)
		}
	})
}

// TestIdleWordThatIsOld: a fork that was written to while its word was on the
// way is at work, whatever the word says.
func TestIdleWordThatIsOld(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(
					uses("fork", "prompt", "one"),
				), after(10*time.Second, calls(uses("send", "to", "r-1-0", "message", "more"))),
				after(
					10*time.Second,
					calls(uses("check_mail")),
				), calls(spawnCall("wait", `{"timeout":300,"from":["r-1-0"]}`)), sums,
			},
			"r-1-0": {says("first"), after(time.Minute, says("second"))},
		})
		late := func(at bus.Point) error { // the word comes after the letter
			if at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, "r-1-0-idle1") {
				time.Sleep(15 * time.Second)
			}
			return nil
		}
		s.hire("w", engagement{intercept: late})
		s.settle()
		s.completed(
			s.submit("lead", "go"),
			`c0={"agents":[{"id":"r-1-0","status":"received","messages":[{"status":"idle","success":true,"summary":"second"}]}]}`,
		)
		s.clean()
	})
}

// TestIdleWordOfWhoWasStopped: a fork that a person has stopped has read what
// was written to it before, and waits for more: who asks for it again is told
// so at once.
func TestIdleWordOfWhoWasStopped(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(uses("fork", "prompt", "one"), uses("fork", "prompt", "two")),
				after(10*time.Second, calls(uses("send", "to", "r-1-0", "message", "more"))),
				calls(
					spawnCall("wait", `{"timeout":3000,"from":["r-1-0"]}`),
				), calls(spawnCall("wait", `{"timeout":3000,"from":["r-1-0"]}`)), sums,
			},
			// r-1-1 may be stored after it
			"r-1-0": {
				after(time.Second, calls(spawnCall("wait", `{"timeout":3000,"from":["r-1-1"]}`))),
				says("never"),
			},
			"r-1-1": {after(time.Hour, says("never"))},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.eventually("it was written to", func() bool { return len(s.entries(r)) == 3 })
		began := time.Now()
		s.pub(s.child(r, "lead", 0).Interrupt(s.key("stop")), "")
		s.completed(r, `c0={"agents":[{"id":"r-1-0","status":"idle"}]}`)
		s.within(began, time.Minute)
		s.clean()
	})
}

// TestMaxAgentsCountsForks: a fork is one of the runs that a bound on a tree
// allows, and a copy is too.
func TestMaxAgentsCountsForks(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(
					uses("fork", "prompt", "one"),
					uses("fork"),
					uses("fork", "prompt", "three"),
					uses("check_mail"),
				),
				calls(uses("wait", "from", "r-1-0, r-1-1")),
				says("done"),
			},
			"r-1-1": {says("as a copy")},
		})
		s.agents[0].Budget.Agents = 3
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(r, "done")
		const full = "fork error: "
		if got := s.told("r", 2); !strings.HasPrefix(got, "r-1-0\nr-1-1\n"+full) ||
			!strings.HasSuffix(got, "\nno mail") {
			t.Errorf("the forks came to %q", got)
		}
		if n := len(s.asked("lead")); n != 5 {
			t.Errorf("%d model calls", n)
		}
		s.clean()
	})
}
