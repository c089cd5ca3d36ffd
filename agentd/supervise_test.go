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

func watched(mode configs.SupervisionMode) func(*configs.Agent) {
	return func(a *configs.Agent) {
		a.Supervision = configs.Supervision{Mode: mode, Agent: "watcher", Timeout: time.Hour}
	}
}

// watchedLead is a lead with a leaf and a supervisor that gives its verdicts
// one after the other.
func (s *stage) watchedLead(mode configs.SupervisionMode, verdicts ...string) {
	s.agents = append(
		s.agents,
		define("lead", []string{"leaf"}, watched(mode)),
		define("leaf", nil),
		define("watcher", nil),
	)
	n := 0
	s.parts["watcher"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
		n++
		return says(verdicts[min(n, len(verdicts))-1])(ctx, a)
	}
	s.parts["lead"] = turns(calls(call("leaf", "x"), call("leaf", "y")), sums)
	s.hire("w", engagement{})
	s.settle()
}

// TestSupervised: a supervisor sees what a run was asked, what it says and what
// it is about to do; where it is content the turn goes on as ever, and nobody
// but the supervisor's run is told anything.
func TestSupervised(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(configs.Supervised, "I see no harm.\n```json\n{\"decision\": \"continue\"}\n```")
		r := s.submit("lead", "the \"task\"")
		o := s.completed(r, "c0=leaf|c1=leaf")
		if o.Subtree.Runs != 4 {
			t.Errorf("%d runs are counted, want 4", o.Subtree.Runs)
		}
		asks := s.asked("watcher")
		if len(asks) != 1 {
			t.Fatalf("the supervisor was asked %d times", len(asks))
		}
		text := asks[0].text()
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
			t.Error(diff)
		}
		if s.asked("leaf")[0].from.Before(asks[0].to) {
			t.Error("a leaf was asked before the supervisor had answered")
		}
		for _, m := range s.asked("lead")[1].req.Messages {
			if b, _ := json.Marshal(m); strings.Contains(string(b), "decision") {
				t.Errorf("the run was shown the verdict: %s", b)
			}
		}
		s.clean()
	})
}

// TestReoriented: of a turn that its supervisor corrects nothing is done, and
// the run reads the correction as the results of its calls.
func TestReoriented(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(
			configs.Supervised,
			`{"decision":"reorient","correction":"ask nobody"}`,
			`{"decision":"pause","reason":"too much"}`,
			"hm",
		)
		s.parts["lead"] = turns(
			calls(call("leaf", "x"), call("nobody", "y")),
			calls(call("leaf", "z")),
			calls(call("leaf", "z")),
			sums,
		)
		r := s.submit("lead", "go")
		s.completed(
			r,
			"c0=Nothing of this turn was carried out: your supervisor wants a person to look at it first, and nobody is there. the supervisor gave no verdict",
		)
		first := s.asked("lead")[1].results()
		if first[0].Content != "Nothing of this turn was carried out. Your supervisor says: ask nobody" ||
			!first[0].IsError ||
			first[1].Content != `call_agent error: agent "nobody" is not in this agent's sub_agents list` {
			t.Errorf("%+v", first)
		}
		if got := s.asked("lead")[2].results()[0].Content; got != "Nothing of this turn was carried out: your supervisor wants a person to look at it first, and nobody is there. too much" {
			t.Error(got)
		}
		if n := len(s.asked("leaf")); n != 0 {
			t.Errorf("%d leaves were asked", n)
		}
		s.clean()
	})
}

// TestVerdictsStayBelow: what a supervisor says to a run that works for another
// one, that one does not learn, neither its model nor from the outcome; and who
// is not supervised is looked at by nobody.
func TestVerdictsStayBelow(t *testing.T) {
	onStage(t, func(s *stage) {
		const marker = "mind the step"
		s.watchedLead(
			configs.Supervised,
			`{"decision":"reorient","correction":"`+marker+`"}`,
			`{"decision":"continue"}`,
		)
		s.agents = append(s.agents, define("top", []string{"lead"}))
		s.parts["top"] = turns(calls(call("lead", "x")), sums)
		s.parts["lead"] = turns(calls(call("leaf", "x")), calls(call("leaf", "y")), says("done"))
		s.hands[0].serve(s, s.agents...)
		s.settle()
		r := s.submit("top", "go")
		s.completed(r, "c0=done")
		if got := s.asked("lead")[1].results()[0].Content; !strings.Contains(got, marker) {
			t.Errorf("the run itself reads %q", got)
		}
		for _, a := range s.asked("top") {
			if said := conversation(a.req.Messages) + a.req.System; strings.Contains(said, marker) {
				t.Errorf("its caller was shown %s", said)
			}
		}
		for _, reply := range []string{r.Reply(1, 0), r.Space.Result(r.Agent, r.Tree)} {
			for _, m := range s.all(reply) {
				if strings.Contains(string(m.Body), marker) {
					t.Errorf("%s: %s", m.Subject, m.Body)
				}
			}
		}
		asks := s.asked("watcher")
		for _, a := range asks {
			if !strings.Contains(a.text(), `"agent":"lead"`) {
				t.Errorf("the supervisor was asked about another run: %s", a.text())
			}
		}
		if len(asks) != 2 || s.runs(r) != 5 {
			t.Errorf("the supervisor was asked %d times, and there were %d runs", len(asks), s.runs(r))
		}
		s.clean()
	})
}

// TestHeld: where the supervisor pauses a person decides, after any time, and
// on any worker. Until then there is nothing but messages, and the run's time
// for its calls begins when they may be made.
func TestHeld(t *testing.T) {
	for _, test := range []struct {
		name, word, want string
		onTimeout        configs.OnTimeout
	}{
		{"approved", `{"approve":true}`, "c0=leaf|c1=leaf", ""},
		{"denied", `{"approve":false,"reason":"not on a Sunday"}`, strings.Repeat("|c%=Nothing of this turn was carried out: it was denied. not on a Sunday", 2), ""},
		{"nobody", ``, strings.Repeat("|c%=Nothing of this turn was carried out: nobody has approved of it within 3600s", 2), ""},
		{"nobody, and that is approval", ``, "c0=leaf|c1=leaf", configs.Approve},
	} {
		t.Run(test.name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.watchedLead(configs.SupervisedHuman, `{"decision":"pause","reason":"who pays?"}`)
				s.hands[0].leave(s)
				s.agents[0].SubAgentsConf.Timeout, s.agents[0].Supervision.OnTimeout = 60, test.onTimeout
				first := s.hire("w1", engagement{Config: agentd.Config{Timeout: 5 * time.Hour}})
				s.settle()
				r := s.submit("lead", "go")
				held := func() bool {
					return len(s.all(r.Timer(1))) == 1 &&
						strings.Contains(string(s.all(r.Timer(1))[0].Body), "who pays?")
				}
				s.eventually("the turn is held", held)
				first.leave(s)
				time.Sleep(10 * time.Minute)
				s.hire("w2", engagement{Config: agentd.Config{Timeout: 5 * time.Hour}})
				s.settle()
				began := time.Now()
				if test.word != "" {
					s.pub(r.Approve(s.key("k")), test.word)
					s.pub(r.Approve(s.key("l")), `{"approve":true}`)
				}
				want := strings.Replace(strings.Replace(strings.TrimPrefix(test.want, "|"), "%", "0", 1), "%", "1", 1)
				o := s.result(r, 4*time.Hour)
				if o.Status != run.StatusCompleted || o.Result != want {
					t.Errorf("%+v", o)
				}
				if test.word != "" {
					s.within(began, time.Minute)
				}
				s.clean()
			})
		})
	}
}

// TestSupervisionGoesDown: who works for a supervised run is supervised too, by
// the same supervisor, whatever its own file says, unless that asks for more.
func TestSupervisionGoesDown(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(configs.Supervised, `{"decision":"continue"}`)
		s.agents = append(s.agents, define("middle", []string{"leaf"}, func(a *configs.Agent) {
			a.Supervision = configs.Supervision{Mode: configs.SupervisedHuman, Agent: "friend", Timeout: time.Minute}
		}), define("lax", []string{"leaf"}, func(a *configs.Agent) {
			a.Supervision = configs.Supervision{Mode: configs.Supervised, Agent: "friend"}
		}), define("friend", nil))
		s.agents[0].SubAgents = []string{"middle", "lax"}
		s.parts["lead"] = turns(calls(call("middle", "x"), call("lax", "x")), sums)
		s.parts["middle"] = turns(calls(call("leaf", "x")), sums)
		s.parts["lax"] = turns(calls(call("leaf", "x")), sums)
		s.hands[0].serve(s, s.agents...)
		s.settle()
		r := s.submit("lead", "go")
		s.completed(r, "c0=c0=leaf|c1=c0=leaf")
		if w, f := len(s.asked("watcher")), len(s.asked("friend")); w != 3 || f != 0 {
			t.Errorf("the watcher was asked %d times and the friend %d", w, f)
		}
		got := map[string]run.Mode{}
		for i, agent := range []string{"middle", "lax"} {
			got[agent] = s.entries(s.child(r, agent, i))[0].Start.Supervision.Mode
		}
		if diff := cmp.Diff(map[string]run.Mode{"middle": run.Human, "lax": run.Supervised}, got); diff != "" {
			t.Error(diff)
		}
		s.clean()
	})
}

// TestHumanGoesDown: who has no supervision of its own and works for a run of
// which people decide waits for them too.
func TestHumanGoesDown(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(configs.SupervisedHuman, `{"decision":"continue"}`, `{"decision":"pause","reason":"who pays?"}`)
		s.agents = append(s.agents, define("middle", []string{"leaf"}))
		s.agents[0].SubAgents = []string{"middle"}
		s.parts["lead"] = turns(calls(call("middle", "x")), sums)
		s.parts["middle"] = turns(calls(call("leaf", "x")), sums)
		s.hands[0].serve(s, s.agents...)
		s.settle()
		r := s.submit("lead", "go")
		below := s.child(r, "middle", 0)
		s.eventually("it is held", func() bool {
			ms := s.all(below.Timer(1))
			return len(ms) == 1 && strings.Contains(string(ms[0].Body), "who pays?")
		})
		time.Sleep(10 * time.Minute)
		if n := len(s.asked("leaf")); n != 0 {
			t.Errorf("%d leaves were asked before anybody had decided", n)
		}
		s.pub(below.Approve(s.key("k")), `{"approve":true}`)
		s.completed(r, "c0=c0=leaf")
		want := run.Supervision{Mode: run.Human, Agent: "watcher", Timeout: time.Hour}
		if diff := cmp.Diff(want, s.entries(below)[0].Start.Supervision); diff != "" {
			t.Error(diff)
		}
		s.clean()
	})
}

// TestNoSupervisor: where the supervisor cannot be asked, or fails, nothing is
// done; and an agent that needs a person is refused before its model is asked
// where nobody can answer.
func TestNoSupervisor(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(configs.Supervised, "")
		s.agents[0].Supervision.Agent = "gone"
		s.hands[0].serve(s, s.agents...)
		s.settle()
		s.parts["lead"] = turns(calls(call("leaf", "x")), sums)
		const nothing = "c0=Nothing of this turn was carried out: your supervisor wants a person to look at it first, and nobody is there. "
		s.completed(s.submit("lead", "go"), nothing+"the supervisor gone cannot be asked: no worker serves it")
		s.agents[0].Supervision.Agent = "watcher"
		s.parts["watcher"] = fails(&provider.Error{Category: provider.Auth, Message: "no key"})
		s.hands[0].serve(s, s.agents...)
		s.settle()
		s.completed(s.submit("lead", "go"), nothing+"the supervisor failed: auth: no key")
		s.hands[0].leave(s)
		s.agents[0].Supervision.Mode = configs.SupervisedHuman
		s.hire("alone", engagement{Config: agentd.Config{Unattended: true}})
		s.settle()
		asked := len(s.asked("lead"))
		s.failed(
			s.submit("lead", "go"),
			run.KindError,
			`supervision.mode is "human", and nobody can answer here: start workers on a bus that people can reach, and submit the task there`,
		)
		if len(s.asked("lead")) != asked {
			t.Error("its model was asked")
		}
		s.clean()
	})
}

// TestInterrupt: a person stops a run that waits: those that it has called are
// cancelled, their outcomes are collected, and then it is idle until it is
// written to, and goes on from there.
func TestInterrupt(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["leaf"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if strings.Contains(a.text(), "quick") {
				return says("here")(ctx, a)
			}
			return after(time.Hour, says("never"))(ctx, a)
		}
		s.parts["lead"] = turns(calls(call("leaf", "quick"), call("leaf", "slow")), sums)
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("leaf", 2)
		began := time.Now()
		s.pub(r.Interrupt(s.key("stop")), "")
		s.eventually("the slow one has ended", func() bool { return len(s.outcomes(r.Reply(1, 1))) == 1 })
		s.within(began, 10*time.Second)
		time.Sleep(time.Minute)
		if n := len(s.asked("lead")); n != 1 {
			t.Fatalf("the lead was asked %d times", n)
		}
		s.pub(r.Mail(s.key("m1")), `{"from":"user","text":"Do without the slow one."}`)
		s.pub(r.Mail(s.key("m2")), `{"from":"user","text":"And hurry."}`)
		s.asking("lead", 2)
		msgs := s.asked("lead")[1].req.Messages
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
		msgs[3].Content, _, _ = strings.Cut(msgs[3].Content, "\n")
		if diff := cmp.Diff(want, msgs[2:]); diff != "" {
			t.Error(diff)
		}
		if o := s.result(r, time.Hour); o.Status != run.StatusCompleted {
			t.Errorf("%+v", o)
		}
		s.clean()
	})
}

// TestInterruptStopsForks: with a run those stop that it has forked, at work or
// idle; that they have ended does not wake it, and it hears of it when a person
// has written to it. So it is with one that is idle while its fork works.
func TestInterruptStopsForks(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r": {
				calls(
					uses("fork", "prompt", "one"),
					uses("fork", "prompt", "two"),
				), calls(uses("wait", "timeout", "3000")),
				calls(uses("wait", "timeout", "3000")), calls(uses("check_mail")), sums,
			},
			"r-1-0": {says("one is done")},
			"r-1-1": {calls(uses("fork", "prompt", "further")), after(time.Hour, says("never"))},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.eventually("it waits", func() bool { return len(s.entries(r)) == 3 })
		time.Sleep(time.Minute)
		began := time.Now()
		s.pub(r.Interrupt(s.key("stop")), "")
		for _, end := range []string{r.Reply(1, 0), r.Reply(1, 1), s.child(r, "lead", 1).Reply(1, 0)} {
			s.eventually("its forks have ended, and theirs", func() bool { return len(s.outcomes(end)) == 1 })
		}
		s.within(began, 10*time.Second)
		time.Sleep(time.Minute)
		if n := len(s.asksOf("r")); n != 3 {
			t.Fatalf("it was asked %d times", n)
		}
		s.pub(r.Mail(s.key("m")), `{"from":"user","text":"what is left?"}`)
		o := s.result(r, time.Hour)
		told := strings.Split(s.told("r", 4), "\n")
		slices.Sort(told[:2])
		if diff := cmp.Diff([]string{"got mail from r-1-0", "got mail from r-1-1", "got mail from user"}, told); diff != "" {
			t.Error(diff)
		}
		for _, want := range []string{`"status":"dead"`, "stopped by the user", "what is left?"} {
			if !strings.Contains(o.Result, want) {
				t.Errorf("%s is not in %s", want, o.Result)
			}
		}
		s.clean()
	})
}

// TestInterruptAsking: a run whose model is being asked stops at once: the
// request is aborted, on whichever worker it is.
func TestInterruptAsking(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = turns(after(time.Hour, says("never")))
		s.hire("w1", engagement{})
		s.hire("w2", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		began := time.Now()
		s.pub(r.Interrupt(s.key("stop")), "")
		s.pub(r.Interrupt(s.key("again")), "")
		s.eventually("the request was aborted", func() bool { return s.asked("lead")[0].err != nil })
		s.eventually("it is idle", func() bool { return len(s.entries(r)) == 1 })
		s.within(began, time.Second)
		if e := s.entries(r)[0]; e.Kind != run.EntryIdle || e.End == nil || *e.End != run.EndInterrupted() {
			t.Errorf("%+v", e)
		}
		s.parts["lead"] = sayNews
		s.pub(r.Mail(s.key("m")), `{"from":"user","text":"what now?"}`)
		s.completed(r, "user: go|user: what now?")
		s.clean()
	})
}

// TestInterruptBounded: a run that was stopped is idle in the end though those
// that it had called do not answer, and one that nobody writes to ends at its
// deadline.
func TestInterruptBounded(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"lost"}), define("lost", nil)}
		s.parts["lead"] = turns(calls(call("lost", "x")), sayNews)
		s.hire("w", engagement{agents: s.agents[:1]})
		elsewhere := s.hire("v", engagement{agents: s.agents[1:]})
		s.settle()
		elsewhere.kill()
		r, q := s.submit("lead", "go"), s.submit("lead", "go")
		s.eventually("both have called", func() bool { return len(s.entries(r))+len(s.entries(q)) == 2 })
		s.pub(r.Interrupt(s.key("stop")), "")
		s.pub(q.Interrupt(s.key("stop")), "")
		time.Sleep(15 * time.Second)
		s.pub(r.Mail(s.key("m")), `{"from":"user","text":"what now?"}`)
		s.completed(r, "user: go|assistant: calling|tool: |user: what now?")
		if o := s.result(q, 2*time.Hour); o.Kind != run.KindTimeout {
			t.Errorf("%+v", o)
		}
	})
}

// sayNews answers with the roles and texts of all that it was shown.
func sayNews(ctx context.Context, a *asked) (*provider.Response, error) {
	var all []string
	for _, m := range a.req.Messages {
		all = append(all, string(m.Role)+": "+m.Content)
	}
	return says(strings.Join(all, "|"))(ctx, a)
}

func (s *stage) key(name string) subjects.Key {
	k, err := subjects.ParseKey(name)
	if err != nil {
		s.tb.Fatal(err)
	}
	return k
}

// TestPeopleCrossACrash kills the worker at each step of a tree that is
// supervised, held for a person and approved of, and of one that is interrupted
// and written to. (At one step in three, unless more walks than usual are asked
// for.)
func TestPeopleCrossACrash(t *testing.T) {
	t.Parallel()
	stride := 3
	if long {
		stride = 1
	}
	for name, play := range map[string]func(*stage, subjects.Run){
		"approved": func(s *stage, r subjects.Run) {
			s.eventually("it is held, or over", func() bool {
				ms := s.all(r.Timer(1))
				return len(ms) > 0 && strings.Contains(string(ms[0].Body), "who pays?") || len(s.outcomes(r.Space.Result(r.Agent, r.Tree))) > 0
			})
			s.pub(r.Approve(s.key("k")), `{"approve":true}`)
		},
		"interrupted": func(s *stage, r subjects.Run) {
			// it waits for its leaves, or nobody has it
			time.Sleep(4 * time.Second)
			s.pub(r.Interrupt(s.key("stop")), "")
			time.Sleep(2 * time.Minute)
			s.pub(r.Mail(s.key("m")), `{"from":"user","text":"go on"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := 1
			for done := false; !done; at += stride {
				bubble(
					t,
					func(s *sim) { done = peopleAt(&stage{sim: s, parts: map[string]part{}}, name == "approved", at, play) },
				)
				if t.Failed() {
					t.Fatalf("killed at step %d", at)
				}
			}
			if at < 15 {
				t.Errorf("only %d steps: the worker does more than that", at)
			}
		})
	}
}

// peopleAt kills the first worker at a step and reports whether it lived to its
// end without that step.
func peopleAt(s *stage, watch bool, at int, play func(*stage, subjects.Run)) (lived bool) {
	s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil), define("watcher", nil)}
	s.parts["lead"] = turns(calls(call("leaf", "x"), call("leaf", "y")), after(time.Second, says("done")))
	s.parts["leaf"] = after(10*time.Second, says("leaf"))
	s.parts["watcher"] = says(`{"decision":"pause","reason":"who pays?"}`)
	if watch {
		watched(configs.SupervisedHuman)(&s.agents[0])
	}
	var victim *hand
	var step atomic.Int64
	hired := make(chan struct{})
	victim = s.hire("victim", engagement{intercept: func(bus.Point) error {
		<-hired
		if step.Add(1) == int64(at) {
			victim.kill()
			return errKilled
		}
		return nil
	}})
	close(hired)
	s.settle()
	r := s.submit("lead", "go")
	time.Sleep(time.Second)
	heir := s.hire("heir", engagement{})
	play(s, r)
	if o := s.result(r, 30*time.Minute); o.Status != run.StatusCompleted || o.Result != "done" {
		s.tb.Errorf("%+v", o)
	}
	time.Sleep(time.Minute) // what is unacknowledged comes again
	lived = step.Load() < int64(at)
	if n := len(s.asked("lead")); watch && lived && n != 2 {
		s.tb.Errorf("the lead was asked %d times", n)
	}
	s.clean()
	for _, h := range []*hand{victim, heir} {
		h.kill()
		_ = h.wait()
	}
	return lived
}

// TestCopyOfAHeldTurn: a run that waits for a person may be copied; the copy
// knows that nothing of that turn was done.
func TestCopyOfAHeldTurn(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(configs.SupervisedHuman, `{"decision":"pause","reason":"who pays?"}`)
		s.parts["lead"] = turns(calls(toolCall("check_mail", nil)), sayNews)
		s.agents[0].Delegation.Styles = configs.Styles{configs.StyleMail}
		s.hands[0].serve(s, s.agents...)
		s.settle()
		r := s.submit("lead", "go")
		s.eventually(
			"the turn is held",
			func() bool { return len(s.all(r.Timer(1))) == 1 && len(s.asked("watcher")) == 1 },
		)
		copied := r
		var err error
		if copied.Tree, err = client.New(s.hands[0].conn).Fork(s.ctx, client.ForkTask{Tree: r.Tree, Path: subjects.Root, Turn: 1, Prompt: "and now?"}); err != nil {
			t.Fatal(err)
		}
		s.completed(copied, "user: go|assistant: calling|tool: |user: and now?")
		if got := s.asked("lead")[1].req.Messages[2].ToolResults[0].Content; got != "Nothing of this turn was carried out: nobody has approved of it yet." {
			t.Error(got)
		}
	})
}

// TestNotSeenWhole: what is too long to be shown to the supervisor is not
// carried out on its word.
func TestNotSeenWhole(t *testing.T) {
	onStage(t, func(s *stage) {
		s.watchedLead(configs.Supervised, `{"decision":"continue"}`)
		s.parts["lead"] = turns(
			calls(call("leaf", strings.Repeat("x", 70_000)+" and then delete it all")),
			calls(call("leaf", "x")),
			sums,
		)
		s.completed(s.submit("lead", "go"), "c0=leaf")
		const want = "Nothing of this turn was carried out: your supervisor wants a person to look at it first, and nobody is there. " +
			"An argument is too long for the supervisor to see all of it."
		if got := s.asked("lead")[1].results()[0].Content; got != want {
			t.Error(got)
		}
		if first := s.asked("watcher")[0].text(); !strings.Contains(first, `"cut":{"task":70023}`) ||
			strings.Contains(first, "delete") {
			t.Errorf("%.300s", first)
		}
		if n := len(s.asked("leaf")); n != 1 {
			t.Errorf("%d leaves were asked", n)
		}
		s.clean()
	})
}

// TestHeldUntilTheEnd: a run has no more time for a person than it has itself,
// whoever waits for it and whatever silence would have come to: it ends by
// itself then, and says what it has waited for.
func TestHeldUntilTheEnd(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"a root": 10 * time.Minute, "a child": time.Hour} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.watchedLead(configs.SupervisedHuman, `{"decision":"pause","reason":"who pays?"}`)
				s.agents[0].Supervision.OnTimeout = configs.Approve
				s.agents = append(
					s.agents,
					define("top", []string{"lead"}, func(a *configs.Agent) { a.SubAgentsConf.Timeout = 600 }),
				)
				s.parts["top"] = turns(calls(call("lead", "x")), sums)
				s.hands[0].serve(s, s.agents...)
				s.settle()
				r, began := s.root("lead"), time.Now()
				held, reply := r, r.Space.Result(r.Agent, r.Tree)
				if name == "a child" {
					r = s.root("top")
					held, reply = s.child(r, "lead", 0), r.Reply(1, 0)
				}
				s.send(r, "go", due(began.Add(timeout)))
				s.eventually("it is held", func() bool {
					ms := s.all(held.Timer(1))
					return len(ms) == 1 && strings.Contains(string(ms[0].Body), "who pays?")
				})
				waits, err := client.New(s.hands[0].conn).HeldTurns(s.ctx, r.Tree)
				if err != nil || len(waits) != 1 || waits[0].Until.Sub(began).Round(time.Second) != 10*time.Minute {
					t.Errorf("%v, %+v since %v", err, waits, began)
				}
				time.Sleep(9*time.Minute + 30*time.Second)
				s.eventually("it has ended", func() bool { return len(s.outcomes(reply)) == 1 })
				s.within(began, 10*time.Minute+2*time.Second)
				want := "timeout after 600s"
				// the parent of another one sees nothing of who
				// watches over it
				if name == "a root" {
					want += ": nobody had approved of what it was about to do"
				}
				if o := s.outcomes(reply)[0]; o.Kind != run.KindTimeout || o.Error != want {
					t.Errorf("%+v", o)
				}
				if n := len(s.asked("leaf")); n != 0 {
					t.Errorf("%d leaves were asked", n)
				}
				s.clean()
			})
		})
	}
}
