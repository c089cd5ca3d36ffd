package agentd_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestSequentialCalls: with parallel = false a call is published after the
// previous call's outcome. Otherwise all calls are published at once.
func TestSequentialCalls(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		fan := []provider.ToolCall{call("leaf", "1"), call("leaf", "2"), call("ghost", "x"), call("leaf", "3")}
		h.agents = []configs.Agent{
			define("one", []string{"leaf"}, sequential),
			define("all", []string{"leaf"}),
			define("leaf", nil),
		}
		h.models["one"], h.models["all"] = turns(calls(fan...), joinsResults), turns(calls(fan...), joinsResults)
		h.models["leaf"] = delayed(time.Second, repeats)
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		const want = `c0=1|c1=2|c2=call_agent error: agent "ghost" is not in this agent's sub_agents list|c3=3`
		r := h.submit("one", "go")
		h.expectCompleted(r, want)
		if n := peakConcurrency(h.requests("leaf")); n != 1 {
			t.Errorf("%d children of a sequential parent were asked at once, want 1", n)
		}
		var order []string
		for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
			if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call && at.Run != r {
				order = append(order, "call "+at.Run.Path.String())
			} else if err == nil && at.Kind == subjects.Reply {
				order = append(order, "reply "+at.Run.Path.Child(at.Turn, at.Index).String())
			}
		}
		wantOrder := []string{"call r-1-0", "reply r-1-0", "call r-1-1", "reply r-1-1", "call r-1-3", "reply r-1-3"}
		if diff := cmp.Diff(wantOrder, order); diff != "" {
			t.Errorf("order of calls and replies (-want +got):\n%s", diff)
		}
		h.expectCompleted(h.submit("all", "go"), want)
		if n := peakConcurrency(h.requests("leaf")[3:]); n != 3 {
			t.Errorf("%d children of a parallel parent were asked at once, want 3", n)
		}
	})
}

// TestSlowChildTimesOut: the caller's model is told after the timeout and goes
// on. A later answer of the child changes nothing.
func TestSlowChildTimesOut(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"slow", "fast"}, timeout(5)),
			define("slow", nil),
			define("fast", nil),
		}
		h.models["lead"] = turns(
			calls(call("slow", "x"), call("fast", "x")),
			delayed(10*time.Second, calls(call("fast", "y"))),
			joinsResults,
		)
		h.models["slow"] = delayed(time.Minute, says("too late"))
		h.models["fast"] = delayed(3*time.Second, says("fast"))
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 2)
		second := h.requests("lead")[1]
		if waited := second.began.Sub(h.requests("slow")[0].began); waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("the parent went on after %v, want 5s to 6s", waited)
		}
		// The model is at its second turn.
		time.Sleep(5 * time.Second)
		h.write(bus.Message{Subject: r.Reply(1, 0), Body: []byte(`{"status":"completed","result":"too late"}`)})
		h.awaitRequests("lead", 3)
		h.expectCompleted(r, "c0=fast")
		third := h.requests("lead")[2].Messages
		for i, m := range [][]provider.ToolResult{second.results(), third[2].ToolResults} {
			if m[0].Content != failedCall("slow", "timeout after 5s") || m[1].Content != "fast" {
				t.Errorf("turn %d is shown %+v, want the timeout of slow, and fast", i+2, m)
			}
		}
		if n := len(h.entries(r)); n != 2 {
			t.Errorf("%d turns on the log, want 2", n)
		}
	})
}

// TestChildWithoutWorkerTimesOut: the agent is known, but no worker serves it.
// A worker that starts later does not ask the agent's model.
func TestChildWithoutWorkerTimesOut(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"lonely"}, timeout(7))}
		h.models["lead"] = turns(calls(call("lonely", "x")), joinsResults)
		h.announce("lonely")
		h.startWorker("w", workerOptions{})
		h.expectCompleted(h.submit("lead", "go"), "c0="+failedCall("lonely", "timeout after 7s"))
		h.startWorker("late", workerOptions{agents: []configs.Agent{define("lonely", nil)}})
		time.Sleep(time.Minute)
		if n := len(h.requests("lonely")); n != 0 {
			t.Errorf("%d requests for a call past its deadline, want none", n)
		}
	})
}

// announce makes an agent known that no worker serves.
func (h *harness) announce(name string) { h.putCard(agentd.Card{Name: name, Digest: "d"}) }

// putCard puts a card into the directory.
func (h *harness) putCard(c agentd.Card) {
	card, err := json.Marshal(c)
	if err != nil {
		h.tb.Fatal(err)
	}
	dir, err := h.conn.Directory(h.ctx)
	if err != nil {
		h.tb.Fatal(err)
	}
	if _, err := dir.Put(h.ctx, c.Name, card); err != nil {
		h.tb.Fatal(err)
	}
}

// TestTimeoutOfEachSequentialCall: the timeout of a sequential call begins when
// the previous call has ended.
func TestTimeoutOfEachSequentialCall(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"leaf", "slow"}, timeout(5), sequential),
			define("leaf", nil),
			define("slow", nil),
		}
		h.models["lead"] = turns(calls(call("leaf", "1"), call("slow", "2"), call("leaf", "3")), joinsResults)
		h.models["leaf"] = delayed(4*time.Second, repeats)
		h.models["slow"] = delayed(time.Minute, repeats)
		h.startWorker("w", workerOptions{})
		from := time.Now()
		h.expectCompleted(h.submit("lead", "go"), "c0=1|c1="+failedCall("slow", "timeout after 5s")+"|c2=3")
		h.tookAtMost(from, 14*time.Second) // 4 s, 5 s and 4 s
	})
}

// TestDeadlineIsInherited: a call without a timeout of its own gets the rest of
// its caller's time, at every level. With a timeout it never gets more than
// that.
func TestDeadlineIsInherited(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("a", []string{"b"}),
			define("b", []string{"c"}, timeout(3600)),
			define("c", nil),
		}
		h.models["a"] = turns(calls(call("b", "x")), joinsResults)
		h.models["b"] = turns(calls(call("c", "x")), joinsResults)
		h.startWorker("w", workerOptions{})
		r, deadline := h.root("a"), time.Now().Add(10*time.Minute)
		h.submitTo(r, "go", [2]string{subjects.HeaderDeadline, subjects.FormatDeadline(deadline)})
		h.expectCompleted(r, "c0=c0=c")
		b := h.child(r, "b", 0)
		for _, call := range []string{r.Call(), b.Call(), h.child(b, "c", 0).Call()} {
			got, err := subjects.ParseDeadline(h.readAll(call)[0].Header.Get(subjects.HeaderDeadline))
			if err != nil || !got.Equal(deadline) {
				t.Errorf("deadline of %s: %v %v, want %v", call, got, err, deadline)
			}
		}
	})
}

// TestTurnsLimit: a model that never ends its run is asked 50 times. Then the
// run fails, and its parent goes on.
func TestTurnsLimit(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"loop"}, call("loop", "x"))
		h.agents[1].SubAgents = []string{"nobody"}
		h.models["loop"] = calls(use("again"))
		h.startWorker("w", workerOptions{})
		r := h.submit("lead", "go")
		const why = "agent exceeded maximum conversation turns (50)"
		h.expectCompleted(r, "c0="+failedCall("loop", why))
		if n := len(h.requests("loop")); n != 50 {
			t.Errorf("the model was asked %d times, want 50", n)
		}
		o := h.outcomes(r.Reply(1, 0))[0]
		if o.Kind != run.KindTurns || o.Error != why || o.Turns != 50 || o.ToolCalls != 50 {
			t.Errorf("outcome %+v, want kind %s, 50 turns and 50 tool calls", o, run.KindTurns)
		}
	})
}

// TestStartIsKept: a run keeps the definition that it started with, though its
// next worker has another one.
func TestStartIsKept(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		was := define("lead", []string{"leaf"}, timeout(600), maxDepth(2))
		was.SystemPrompt = "be kind"
		was.Params = configs.Params{Temperature: new(0.5), MaxTokens: 77}
		is := define("lead", []string{"other"})
		is.SystemPrompt = "be rude"
		is.Model = "sim/rude"
		is.Digest = "changed"
		h.models["lead"] = turns(calls(call("leaf", "1")), calls(call("leaf", "2"), call("other", "x")), joinsResults)
		h.models["leaf"] = delayed(30*time.Second, repeats)
		first := h.startWorker("w1", workerOptions{agents: []configs.Agent{was}})
		h.startWorker("leaves", workerOptions{agents: []configs.Agent{define("leaf", nil), define("other", nil)}})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		first.drain()
		h.startWorker("w2", workerOptions{agents: []configs.Agent{is}})
		h.expectCompleted(r, `c0=2|c1=call_agent error: agent "other" is not in this agent's sub_agents list`)
		requests := h.requests("lead")
		if len(requests) != 3 || requests[1].worker.name != "w2" {
			t.Fatalf("the lead was asked %d times, want 3, by w2 from the second on", len(requests))
		}
		one, three := *requests[0].Request, *requests[2].Request
		one.Messages, three.Messages = nil, nil
		if diff := cmp.Diff(one, three); diff != "" || one.System != "be kind" {
			t.Errorf("the request of the second worker differs:\n%s", diff)
		}
		if d := h.entries(r)[1].Timeout; d != 10*time.Minute {
			t.Errorf("timeout of the second turn: %v, want 10m", d)
		}
	})
}

// TestTotals: each outcome counts the usage of its own run, and of the run and
// all runs below it.
func TestTotals(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("a", []string{"b", "bad"}),
			define("b", []string{"c"}),
			define("bad", nil),
			define("c", nil),
		}
		h.models["a"] = turns(
			calls(call("b", "1"), call("b", "2"), call("bad", "x"), call("nobody", "x")),
			delayed(2*time.Second, joinsResults),
		)
		h.models["b"] = turns(calls(call("c", "1"), call("c", "2")), joinsResults)
		failure := &provider.Error{Category: provider.Server, Message: "no"}
		h.models["bad"] = delayed(500*time.Millisecond, fails(failure))
		h.models["c"] = delayed(time.Second, says("c"))
		h.startWorker("w1", workerOptions{})
		h.startWorker("w2", workerOptions{})
		r := h.submit("a", "go")
		o := h.awaitOutcome(r, time.Hour)
		// A turn with calls is 100, 10 and 20 tokens. An answer is 10,
		// 1 and 2.
		if want := (provider.Usage{InputTokens: 110, OutputTokens: 11, CachedTokens: 22}); o.Usage != want ||
			o.Turns != 2 ||
			o.ToolCalls != 4 {
			t.Errorf("the root: %+v, %d turns, %d calls, want %+v, 2 and 4", o.Usage, o.Turns, o.ToolCalls, want)
		}
		want := run.Totals{
			Usage: provider.Usage{InputTokens: 3*110 + 4*10, OutputTokens: 3*11 + 4, CachedTokens: 3*22 + 4*2},
			Runs:  8, ModelCalls: 6 + 4 + 1, ToolCalls: 4 + 2 + 2, ModelMS: 2000 + 4*1000 + 500,
			Others: map[string]provider.Usage{
				"sim/b": {InputTokens: 2 * 110, OutputTokens: 2 * 11, CachedTokens: 2 * 22},
				"sim/c": {InputTokens: 4 * 10, OutputTokens: 4, CachedTokens: 4 * 2},
			},
		}
		if diff := cmp.Diff(want, o.Subtree); diff != "" {
			t.Errorf("subtree:\n%s", diff)
		}
		if o.DurationMS < 3000 || o.DurationMS > 4000 || o.ModelMS != 2000 {
			t.Errorf("it took %d ms, its model %d, want 3000 to 4000, and 2000", o.DurationMS, o.ModelMS)
		}
		if !strings.HasPrefix(o.Worker, "w") || o.Agent != "a" || o.Path != "r" || o.Tree != r.Tree.String() ||
			o.Model != "sim/a" {
			t.Errorf("outcome %+v, want that of root r of agent a with model sim/a", o)
		}
	})
}

// TestNestedFanOutIsParallel: nine leaves below three agents are asked at once,
// and a tree of three levels takes as long as five turns.
func TestNestedFanOutIsParallel(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"middle"}),
			define("middle", []string{"leaf"}),
			define("leaf", nil),
		}
		h.models["lead"] = turns(delayed(time.Second, splitsTask("middle", 3)), delayed(time.Second, says("done")))
		h.models["middle"] = turns(delayed(time.Second, splitsTask("leaf", 3)), delayed(time.Second, says("done")))
		h.models["leaf"] = delayed(time.Second, says("done"))
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		from := time.Now()
		h.expectCompleted(h.submit("lead", "go"), "done")
		h.tookAtMost(from, 5*time.Second+500*time.Millisecond)
		middles, leaves := peakConcurrency(h.requests("middle")), peakConcurrency(h.requests("leaf"))
		if middles != 3 || leaves != 9 {
			t.Errorf("%d middle runs and %d leaves were asked at once, want 3 and 9", middles, leaves)
		}
	})
}
