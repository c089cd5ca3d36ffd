package agentd_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// fork makes a new tree that goes on from the end of a run of another one, as a
// person does.
func (s *stage) fork(of subjects.Run, prompt string) subjects.Run {
	id, err := client.New(s.conn).Fork(s.ctx, client.ForkTask{Tree: of.Tree, Path: of.Path, Prompt: prompt})
	if err != nil {
		s.tb.Fatal(err)
	}
	return of.Space.Run(of.Agent, id, subjects.Root)
}

// TestCopyOfARunAtWork: a copy goes on from what its run had said when it was
// made, though that says more while the copy is at work and another worker
// reads it then.
func TestCopyOfARunAtWork(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(calls(call("leaf", "x")), after(10*time.Minute, says("the end")))
		s.hire("w1", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 2)
		s.plays("lead", turns(nil, calls(call("leaf", "y")), after(20*time.Minute, sayNews)))
		q := s.fork(r, "And you?")
		s.eventually("the copy is at work", func() bool { return len(s.asked("lead")) == 4 })
		s.completed(r, "the end")
		s.hands[0].kill()
		s.hire("w2", engagement{Config: forgetful})
		s.completed(q, "user: go|assistant: calling|tool: |user: And you?|assistant: calling|tool: ")
		s.clean()
	})
}

// TestCopyIsBounded: what a run is bounded by, its own bounds and those above
// it, bounds a copy of it, and a copy of that; so does the policy and the
// supervision that it was called with, whether it has left a log or not.
func TestCopyIsBounded(t *testing.T) {
	onStage(t, func(s *stage) {
		bounded := func(a *configs.Agent) {
			a.Budget = subjects.Budget{Agents: 4}
			a.Policy = configs.Policy{Agents: []string{"mid", "leaf"}, Tools: []string{"call_agent"}}
			a.Supervision = configs.Supervision{Mode: configs.Supervised, Agent: "watcher"}
		}
		s.agents = []configs.Agent{
			define(
				"lead",
				[]string{"mid"},
				bounded,
				maxDepth(2),
			), define("mid", []string{"leaf", "other"}), define("leaf", nil), define("other", nil), define("watcher", nil),
		}
		s.parts["watcher"] = says(`{"decision":"continue"}`)
		s.parts["lead"] = turns(calls(call("mid", "x")), sums)
		s.parts["mid"] = says("done")
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(r, "c0=done")
		mid := s.child(r, "mid", 0)
		s.plays("mid", func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.req.Messages[len(a.req.Messages)-1].Role == provider.User {
				return calls(call("leaf", "a"), call("other", "b"), call("leaf", "c"), call("leaf", "d"))(ctx, a)
			}
			return sums(ctx, a)
		})
		for _, prompt := range []string{"go on", "again"} {
			q := s.fork(mid, prompt)
			s.result(q, time.Hour)
			start := s.entries(q)[0].Start
			if diff := cmp.Diff("r agents=4", subjects.FormatScopes(start.Scopes)); diff != "" {
				t.Error(diff)
			}
			if start.MaxDepth != 1 || start.Supervision.Mode != run.Supervised || !start.Policy.MayCall("leaf") ||
				start.Policy.MayCall("other") {
				t.Errorf("%+v", start)
			}
		}
		once := s.fork(mid, "once")
		s.result(once, time.Hour)
		q := s.fork(once, "twice")
		s.result(q, time.Hour)
		if start := s.entries(q)[0].Start; start.MaxDepth != 1 || len(start.Scopes) != 1 ||
			start.Scopes[0].Agents != 4 ||
			start.Policy.MayCall("other") {
			t.Errorf("%+v", start)
		}
	})
}

// TestCopyOfAnAdHocRun: a copy of a run of nobody's definition is of nobody's
// either, and does not submit.
func TestCopyOfAnAdHocRun(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawner(nil, toolCall("spawn_agent", map[string]string{"task": "x"}))
		s.agents[0].Files = nil
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.result(r, time.Hour)
		s.plays("lead", says("done"))
		s.completed(s.fork(s.child(r, "lead", 0), "go on"), "done")
		asks := s.asked("lead")
		last := asks[len(asks)-1].req
		for _, tool := range last.Tools {
			if strings.HasPrefix(tool.Name, "submit_") {
				t.Errorf("a root is offered %s", tool.Name)
			}
		}
		if last.System != "" {
			t.Errorf("its system text is %q", last.System)
		}
	})
}

// TestPastThatIsNotReadYet: what the bus does not give of a run's past at this
// moment it gives later; no run ends for that.
func TestPastThatIsNotReadYet(t *testing.T) {
	onStage(t, func(s *stage) {
		long := strings.Repeat("a long thought. ", 9<<20/16)
		s.mailer(map[string][]part{
			"r":     {saying(long, uses("fork")), calls(uses("wait")), sums},
			"r-1-0": {says("done")},
		})
		var forked atomic.Bool
		began := time.Now()
		s.hire("w", engagement{intercept: func(at bus.Point) error {
			forked.CompareAndSwap(false, at.Op == "write" && strings.HasSuffix(at.Subject, ".r-1-0.call"))
			if at.Op == "load" && forked.Load() && time.Since(began) < time.Minute {
				return errBroken
			}
			return nil
		}})
		s.settle()
		r := s.submit("lead", "go")
		o := s.result(r, time.Hour)
		if !strings.Contains(o.Result, `"success":true`) || len(s.asksOf("r-1-0")) != 1 {
			t.Errorf("%s %s: %s", o.Status, o.Error, o.Result)
		}
		s.clean()
	})
}

// saying is a turn with tool calls and a text.
func saying(text string, cs ...provider.ToolCall) part {
	return func(ctx context.Context, a *asked) (*provider.Response, error) {
		resp, err := calls(cs...)(ctx, a)
		resp.Content = text
		return resp, err
	}
}
