package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// fork makes a new tree that goes on from the present end of a run's
// conversation, as `axe fork` does.
func (h *harness) fork(of subjects.Run, prompt string) subjects.Run {
	id, err := client.New(h.conn).Fork(h.ctx, client.ForkTask{Tree: of.Tree, Path: of.Path, Prompt: prompt})
	if err != nil {
		h.tb.Fatal(err)
	}
	return of.Space.Run(of.Agent, id, subjects.Root)
}

// callRoot writes the call of a root, as an operator may.
func (h *harness) callRoot(r subjects.Run, deadline time.Time, in run.Input) {
	body, err := json.Marshal(in)
	if err != nil {
		h.tb.Fatal(err)
	}
	head := subjects.Header{Tree: r.Tree, Path: r.Path, Deadline: deadline, Reply: r.Space.Result(r.Agent, r.Tree)}
	h.write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: body})
}

// TestCopyOfARunningRun: a copy continues from the conversation at the time of
// the copy. The original takes more turns, and the worker dies. Another worker
// reads the original as it is then, and the later turns do not show up in the
// copy.
func TestCopyOfARunningRun(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), delayed(time.Minute, calls(call("leaf", "later"))))
		h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 2)
		const prompt = "And you?"
		third := func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if slices.ContainsFunc(req.Messages, func(m provider.Message) bool { return m.Content == prompt }) {
				return delayed(3*time.Minute, recites)(ctx, req)
			}
			return says("the end")(ctx, req)
		}
		h.setModel("lead", turns(nil, calls(call("leaf", "y")), third))
		q := h.fork(r, prompt)
		h.eventually("two requests for the copy", func() bool { return len(h.requests("lead")) == 4 })
		h.expectCompleted(r, "the end")
		h.workers[0].kill()
		h.startWorker("w2", workerOptions{Config: forgetful})
		h.expectCompleted(q, "user: go|assistant: calling|tool: |user: And you?|assistant: calling|tool: ")
		h.checkVerified()
	})
}

// TestCopyOfATurnNotTaken: the last answer of a run with forks is on its log,
// and counts as one turn. Neither the client nor a worker copies a turn after
// it.
func TestCopyOfATurnNotTaken(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "help")), says("the end")},
			"r-1-0": {delayed(time.Hour, says("late"))},
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "the end")
		for _, turn := range []int{3, run.MaxTurns + 1} {
			_, err := client.New(h.conn).Fork(h.ctx, client.ForkTask{
				Tree: r.Tree, Path: r.Path, Turn: turn, Prompt: "And you?",
			})
			if want := fmt.Sprintf(" took 2 turns, not %d", turn); !errors.Is(err, client.ErrUnknownTurn) ||
				!strings.HasSuffix(err.Error(), want) {
				t.Errorf("fork after turn %d: got error %v, want one that ends with %q", turn, err, want)
			}
		}
		q := h.root("lead")
		h.callRoot(q, time.Now().Add(time.Hour), run.Input{Task: "And you?", Copy: run.CopyOf(r, 3)})
		if o := h.awaitOutcome(q, time.Minute); !strings.Contains(o.Error, "has no turn 3") {
			t.Errorf("outcome %s %q, want an error with \"has no turn 3\"", o.Status, o.Error)
		}
	})
}

// TestCopyOfItself: a call that says that its run goes on from the run itself,
// or from a run that was called later, fails. Nothing was said before the call.
func TestCopyOfItself(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = says("the end")
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		later := h.root("lead")
		one := h.root("lead")
		for _, copied := range []struct{ run, of subjects.Run }{{one, one}, {h.root("lead"), later}} {
			q := copied.run
			h.callRoot(q, time.Now().Add(time.Hour), run.Input{Task: "go", Copy: run.CopyOf(copied.of, 0)})
			if o := h.awaitOutcome(q, time.Minute); !strings.Contains(o.Error, "there was no run") {
				t.Errorf("outcome %s %q, want an error with \"there was no run\"", o.Status, o.Error)
			}
		}
	})
}

// TestCopyOfAnImportedRun: a tree is exported, removed and imported again on the
// same bus, where its messages have higher sequences than before. A copy of its
// run continues the whole conversation.
func TestCopyOfAnImportedRun(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), says("the end"), recites)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "the end")
		c := client.New(h.conn)
		var file bytes.Buffer
		if _, err := client.Export(h.ctx, c, archive.NewWriter(&file, time.Now()), r.Tree); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Forget(h.ctx, c, r.Tree); err != nil {
			t.Fatal(err)
		}
		if err := client.Import(h.ctx, c, bytes.NewReader(file.Bytes()), func(subjects.Tree) {}); err != nil {
			t.Fatal(err)
		}
		q := h.fork(r, "And you?")
		h.expectCompleted(q, "user: go|assistant: calling|tool: |assistant: the end|user: And you?")
	})
}

// TestCopyOfARunWithTwoOutcomes: a copy continues from the first of two stored
// outcomes of a run.
func TestCopyOfARunWithTwoOutcomes(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = says("first")
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "first")
		h.write(bus.Message{
			Subject: r.Space.Result(r.Agent, r.Tree), Body: []byte(`{"status":"completed","result":"second"}`),
		})
		h.setModel("lead", recites)
		h.expectCompleted(h.fork(r, "And you?"), "user: go|assistant: first|user: And you?")
	})
}

// TestCopyIsBounded: the budgets of a run and of the runs above it also bound a
// copy of it, and a copy of the copy. The same holds for the policy and the
// supervision of the run's call. The run has no log, and its copy has one.
func TestCopyIsBounded(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		bounded := func(a *configs.Agent) {
			a.Budget = subjects.Budget{Agents: 4}
			a.Policy = configs.Policy{Agents: []string{"mid", "leaf"}, Tools: []string{"call_agent"}}
			a.Supervision = configs.Supervision{Mode: configs.Supervised, Agent: "watcher"}
		}
		h.agents = []configs.Agent{
			define("lead", []string{"mid"}, bounded, maxDepth(2)),
			define("mid", []string{"leaf", "other"}),
			define("leaf", nil), define("other", nil), define("watcher", nil),
		}
		h.models["watcher"] = says(`{"decision":"continue"}`)
		h.models["lead"] = turns(calls(call("mid", "x")), joinsResults)
		h.models["mid"] = says("done")
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "c0=done")
		mid := h.child(r, "mid", 0)
		h.setModel("mid", func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.Messages[len(req.Messages)-1].Role == provider.User {
				return calls(call("leaf", "a"), call("other", "b"), call("leaf", "c"), call("leaf", "d"))(ctx, req)
			}
			return joinsResults(ctx, req)
		})
		for _, prompt := range []string{"go on", "again"} {
			q := h.fork(mid, prompt)
			h.awaitOutcome(q, time.Hour)
			start := h.entries(q)[0].Start
			if diff := cmp.Diff("r agents=4", subjects.FormatScopes(start.Scopes)); diff != "" {
				t.Errorf("the budget of the copy (-want +got):\n%s", diff)
			}
			if start.MaxDepth != 1 || start.Supervision.Mode != run.Supervised || !start.Policy.MayCall("leaf") ||
				start.Policy.MayCall("other") {
				t.Errorf("the copy starts with %+v, want max depth 1, a supervisor, and calls of leaf alone", start)
			}
		}
		once := h.fork(mid, "once")
		h.awaitOutcome(once, time.Hour)
		q := h.fork(once, "twice")
		h.awaitOutcome(q, time.Hour)
		if start := h.entries(q)[0].Start; start.MaxDepth != 1 || len(start.Scopes) != 1 ||
			start.Scopes[0].Agents != 4 || start.Policy.MayCall("other") {
			t.Errorf("the copy of a copy starts with %+v, want max depth 1, one scope of 4 agents, "+
				"and no calls of other", start)
		}
	})
}

// TestCopyOfAnAdHocRun: a copy of an ad hoc run is ad hoc too: it has no system
// text. As a root it has no submit tools.
func TestCopyOfAnAdHocRun(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(nil, use("spawn_agent", "task", "x"))
		h.agents[0].Files = nil
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitOutcome(r, time.Hour)
		h.setModel("lead", says("done"))
		h.expectCompleted(h.fork(h.child(r, "lead", 0), "go on"), "done")
		requests := h.requests("lead")
		last := requests[len(requests)-1].Request
		for _, tool := range last.Tools {
			if strings.HasPrefix(tool.Name, "submit_") {
				t.Errorf("the copy is offered the tool %s, want no submit tools for a root", tool.Name)
			}
		}
		if last.System != "" {
			t.Errorf("the copy's system text is %q, want none", last.System)
		}
	})
}

// TestUnreadableOriginIsRetried: a fork inherits its parent's conversation, and
// for a minute the bus does not load a large text of it. The worker reads the
// text later. The fork completes, and its model is asked once.
func TestUnreadableOriginIsRetried(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		// A text of 9 MiB is stored as an object, which a reader loads.
		long := strings.Repeat("a long thought. ", 9<<20/16)
		h.forkingLead(map[string][]scriptedModel{
			"r":     {saysAndCalls(long, use("fork")), calls(use("wait")), joinsResults},
			"r-1-0": {says("done")},
		})
		var forked atomic.Bool
		began := time.Now()
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			forked.CompareAndSwap(false, s.Op == "write" && strings.HasSuffix(s.Subject, ".r-1-0.call"))
			if s.Op == "load" && forked.Load() && time.Since(began) < time.Minute {
				return errBusBroken
			}
			return nil
		}})
		h.awaitReady()
		r := h.submit("lead", "go")
		o := h.awaitOutcome(r, time.Hour)
		if !strings.Contains(o.Result, `"success":true`) || len(h.requestsOf("r-1-0")) != 1 {
			t.Errorf("%s %s after %d requests of the fork, want success after one: %.300s",
				o.Status, o.Error, len(h.requestsOf("r-1-0")), o.Result)
		}
		h.checkVerified()
	})
}

// saysAndCalls answers with tool calls and a text.
func saysAndCalls(text string, cs ...provider.ToolCall) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		resp, err := calls(cs...)(ctx, req)
		resp.Content = text
		return resp, err
	}
}
