package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestSequentialCalls: with parallel = false a call is not even published
// before the one before has its outcome; without it all are asked at once.
func TestSequentialCalls(t *testing.T) {
	onStage(t, func(s *stage) {
		fan := []provider.ToolCall{call("leaf", "1"), call("leaf", "2"), call("ghost", "x"), call("leaf", "3")}
		s.agents = []configs.Agent{
			define("one", []string{"leaf"}, sequential),
			define("all", []string{"leaf"}),
			define("leaf", nil),
		}
		s.parts["one"], s.parts["all"] = turns(calls(fan...), sums), turns(calls(fan...), sums)
		s.parts["leaf"] = after(time.Second, repeats)
		s.hire("w1", engagement{})
		s.hire("w2", engagement{})
		const want = `c0=1|c1=2|c2=call_agent error: agent "ghost" is not in this agent's sub_agents list|c3=3`
		r := s.submit("one", "go")
		s.completed(r, want)
		if n := peak(s.asked("leaf")); n != 1 {
			t.Errorf("%d children of a sequential parent were asked at once", n)
		}
		var order []string
		for _, m := range s.all(r.Space.TreeOf(r.Tree)) {
			if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call && at.Run != r {
				order = append(order, "call "+at.Run.Path.String())
			} else if err == nil && at.Kind == subjects.Reply {
				order = append(order, "reply "+at.Run.Path.Child(at.Turn, at.Index).String())
			}
		}
		if diff := cmp.Diff([]string{"call r-1-0", "reply r-1-0", "call r-1-1", "reply r-1-1", "call r-1-3", "reply r-1-3"}, order); diff != "" {
			t.Errorf("calls and replies:\n%s", diff)
		}
		s.completed(s.submit("all", "go"), want)
		if n := peak(s.asked("leaf")[3:]); n != 3 {
			t.Errorf("%d of 3 children of a parallel parent were asked at once", n)
		}
	})
}

// TestSlowChildTimesOut: its caller's model is told after the timeout and goes
// on; what the child says later changes nothing.
func TestSlowChildTimesOut(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("lead", []string{"slow", "fast"}, timeout(5)),
			define("slow", nil),
			define("fast", nil),
		}
		s.parts["lead"] = turns(
			calls(call("slow", "x"), call("fast", "x")),
			after(10*time.Second, calls(call("fast", "y"))),
			sums,
		)
		s.parts["slow"] = after(time.Minute, says("too late"))
		s.parts["fast"] = after(3*time.Second, says("fast"))
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.asking("lead", 2)
		second := s.asked("lead")[1]
		if waited := second.from.Sub(s.asked("slow")[0].from); waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("the parent went on after %v", waited)
		}
		// the model is at its second turn
		time.Sleep(5 * time.Second)
		s.write(bus.Message{Subject: r.Reply(1, 0), Body: []byte(`{"status":"completed","result":"too late"}`)})
		s.asking("lead", 3)
		s.completed(r, "c0=fast")
		third := s.asked("lead")[2].req.Messages
		for i, m := range [][]provider.ToolResult{second.results(), third[2].ToolResults} {
			if m[0].Content != failedCall("slow", "timeout after 5s") || m[1].Content != "fast" {
				t.Errorf("turn %d is shown %+v", i+2, m)
			}
		}
		if n := len(s.entries(r)); n != 2 {
			t.Errorf("%d turns on the log, want 2", n)
		}
	})
}

// TestChildWithoutWorkerTimesOut: the agent is known, but nobody is there. A
// worker that comes later does not ask its model any more.
func TestChildWithoutWorkerTimesOut(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"lonely"}, timeout(7))}
		s.parts["lead"] = turns(calls(call("lonely", "x")), sums)
		s.announce("lonely")
		s.hire("w", engagement{})
		s.completed(s.submit("lead", "go"), "c0="+failedCall("lonely", "timeout after 7s"))
		s.hire("late", engagement{agents: []configs.Agent{define("lonely", nil)}})
		time.Sleep(time.Minute)
		if n := len(s.asked("lonely")); n != 0 {
			t.Errorf("a call past its deadline was asked of the model")
		}
	})
}

// announce makes an agent known that nobody serves.
func (s *stage) announce(name string) {
	dir, err := s.conn.Directory(s.ctx)
	if err != nil {
		s.tb.Fatal(err)
	}
	if _, err := dir.Put(s.ctx, name, []byte(`{"name":"`+name+`","digest":"d"}`)); err != nil {
		s.tb.Fatal(err)
	}
}

// TestTimeoutOfEachSequentialCall: the time of one starts when the one before
// has ended.
func TestTimeoutOfEachSequentialCall(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("lead", []string{"leaf", "slow"}, timeout(5), sequential),
			define("leaf", nil),
			define("slow", nil),
		}
		s.parts["lead"] = turns(calls(call("leaf", "1"), call("slow", "2"), call("leaf", "3")), sums)
		s.parts["leaf"] = after(4*time.Second, repeats)
		s.parts["slow"] = after(time.Minute, repeats)
		s.hire("w", engagement{})
		from := time.Now()
		s.completed(s.submit("lead", "go"), "c0=1|c1="+failedCall("slow", "timeout after 5s")+"|c2=3")
		s.within(from, 14*time.Second)
	})
}

// TestDeadlineIsInherited: without a timeout of its own a call has what is left
// of its caller's time, at every level; with one, never more than that.
func TestDeadlineIsInherited(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("a", []string{"b"}),
			define("b", []string{"c"}, timeout(3600)),
			define("c", nil),
		}
		s.parts["a"] = turns(calls(call("b", "x")), sums)
		s.parts["b"] = turns(calls(call("c", "x")), sums)
		s.hire("w", engagement{})
		r, deadline := s.root("a"), time.Now().Add(10*time.Minute)
		s.send(r, "go", [2]string{subjects.HeaderDeadline, subjects.FormatDeadline(deadline)})
		s.completed(r, "c0=c0=c")
		b := s.child(r, "b", 0)
		for _, call := range []string{r.Call(), b.Call(), s.child(b, "c", 0).Call()} {
			got, err := subjects.ParseDeadline(s.all(call)[0].Header.Get(subjects.HeaderDeadline))
			if err != nil || !got.Equal(deadline) {
				t.Errorf("deadline of %s: %v %v, want %v", call, got, err, deadline)
			}
		}
	})
}

// TestTurnsLimit: a model that never comes to an end is asked 50 times.
func TestTurnsLimit(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"loop"}, call("loop", "x"))
		s.agents[1].SubAgents = []string{"nobody"}
		s.parts["loop"] = calls(toolCall("again", nil))
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		const why = "agent exceeded maximum conversation turns (50)"
		s.completed(r, "c0="+failedCall("loop", why))
		if n := len(s.asked("loop")); n != 50 {
			t.Errorf("the model was asked %d times", n)
		}
		o := s.outcomes(r.Reply(1, 0))[0]
		if o.Kind != run.KindTurns || o.Error != why || o.Turns != 50 || o.ToolCalls != 50 {
			t.Errorf("outcome %+v", o)
		}
	})
}

// TestStartIsKept: a run goes on as it was started, though its next worker has
// another definition.
func TestStartIsKept(t *testing.T) {
	onStage(t, func(s *stage) {
		was := define("lead", []string{"leaf"}, timeout(600), maxDepth(2))
		was.SystemPrompt, was.Params = "be kind", configs.Params{Temperature: new(0.5), MaxTokens: 77}
		is := define("lead", []string{"other"})
		is.SystemPrompt, is.Model, is.Digest = "be rude", "sim/rude", "changed"
		s.parts["lead"] = turns(calls(call("leaf", "1")), calls(call("leaf", "2"), call("other", "x")), sums)
		s.parts["leaf"] = after(30*time.Second, repeats)
		first := s.hire("w1", engagement{agents: []configs.Agent{was}})
		s.hire("leaves", engagement{agents: []configs.Agent{define("leaf", nil), define("other", nil)}})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("leaf", 1)
		first.leave(s)
		s.hire("w2", engagement{agents: []configs.Agent{is}})
		s.completed(r, `c0=2|c1=call_agent error: agent "other" is not in this agent's sub_agents list`)
		asks := s.asked("lead")
		if len(asks) != 3 || asks[1].worker != "w2" {
			t.Fatalf("asked %d times, %v", len(asks), asks)
		}
		one, three := *asks[0].req, *asks[2].req
		one.Messages, three.Messages = nil, nil
		if diff := cmp.Diff(one, three); diff != "" || one.System != "be kind" {
			t.Errorf("the request of the second worker differs:\n%s", diff)
		}
		if d := s.entries(r)[1].Timeout; d != 10*time.Minute {
			t.Errorf("timeout of the second turn: %v", d)
		}
	})
}

// TestTotals: each outcome counts what the run took itself, and what its whole
// subtree did.
func TestTotals(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("a", []string{"b", "bad"}),
			define("b", []string{"c"}),
			define("bad", nil),
			define("c", nil),
		}
		s.parts["a"] = turns(
			calls(call("b", "1"), call("b", "2"), call("bad", "x"), call("nobody", "x")),
			after(2*time.Second, sums),
		)
		s.parts["b"] = turns(calls(call("c", "1"), call("c", "2")), sums)
		s.parts["bad"] = after(500*time.Millisecond, fails(&provider.Error{Category: provider.Server, Message: "no"}))
		s.parts["c"] = after(time.Second, says("c"))
		s.hire("w1", engagement{})
		s.hire("w2", engagement{})
		r := s.submit("a", "go")
		o := s.result(r, time.Hour)
		// A turn with calls is 100, 10 and 20 tokens; an answer is 10,
		// 1 and 2.
		if want := (provider.Usage{InputTokens: 110, OutputTokens: 11, CachedTokens: 22}); o.Usage != want ||
			o.Turns != 2 ||
			o.ToolCalls != 4 {
			t.Errorf("own: %+v, %d turns, %d calls", o.Usage, o.Turns, o.ToolCalls)
		}
		want := run.Totals{
			Usage: provider.Usage{InputTokens: 3*110 + 4*10, OutputTokens: 3*11 + 4, CachedTokens: 3*22 + 4*2},
			Runs:  8, ModelCalls: 6 + 4 + 1, ToolCalls: 4 + 2 + 2, ModelMS: 2000 + 4*1000 + 500,
		}
		if diff := cmp.Diff(want, o.Subtree); diff != "" {
			t.Errorf("subtree:\n%s", diff)
		}
		if o.DurationMS < 3000 || o.DurationMS > 4000 || o.ModelMS != 2000 {
			t.Errorf("it took %d ms, its model %d", o.DurationMS, o.ModelMS)
		}
		if !strings.HasPrefix(o.Worker, "w") || o.Agent != "a" || o.Path != "r" || o.Tree != r.Tree.String() ||
			o.Model != "sim/a" {
			t.Errorf("outcome %+v", o)
		}
	})
}

// TestNestedFanOutIsParallel at every level: nine leaves below three agents are
// asked at once, and a tree of three levels takes as long as five turns, one
// after the other.
func TestNestedFanOutIsParallel(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("lead", []string{"middle"}),
			define("middle", []string{"leaf"}),
			define("leaf", nil),
		}
		s.parts["lead"] = turns(after(time.Second, splits("middle", 3)), after(time.Second, says("done")))
		s.parts["middle"] = turns(after(time.Second, splits("leaf", 3)), after(time.Second, says("done")))
		s.parts["leaf"] = after(time.Second, says("done"))
		s.hire("w", engagement{})
		s.settle()
		from := time.Now()
		s.completed(s.submit("lead", "go"), "done")
		s.within(from, 5*time.Second+500*time.Millisecond)
		if middles, leaves := peak(s.asked("middle")), peak(s.asked("leaf")); middles != 3 || leaves != 9 {
			t.Errorf("%d of 3 and %d of 9 at once", middles, leaves)
		}
	})
}
