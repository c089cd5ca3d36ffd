package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// spawning gives an agent the style spawn alone.
func spawning(a *configs.Agent) { a.Delegation.Styles = configs.Styles{configs.StyleSpawn} }

// spawningOthers gives the style spawn to the agents that have sub-agents.
func spawningOthers(a *configs.Agent) {
	if len(a.SubAgents) > 0 {
		spawning(a)
	}
}

// submits answers with a call of submit_result.
func submits(result string) scriptedModel {
	return calls(use("submit_result", "result", result))
}

// spawningLead makes an agent lead with the style spawn that makes the calls cs
// and answers with their results, and the agents subs that it may name.
func (h *harness) spawningLead(subs []string, cs ...provider.ToolCall) {
	h.callingLead(subs, cs...)
	spawning(&h.agents[0])
}

// spawningLeadWithMemory makes an agent lead with a memory that spawns an ad
// hoc run. p answers for that run.
func (h *harness) spawningLeadWithMemory(task string, p scriptedModel) {
	h.spawningLead(nil, use("spawn_agent", "task", task))
	remembers(0)(&h.agents[0])
	plan := h.models["lead"]
	h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		if req.text() == task {
			return p(ctx, req)
		}
		return plan(ctx, req)
	}
}

// spawnResultOf is the result of one spawn call of the lead's first turn, as
// its model reads it, without the durations. It has a line for each run.
func (h *harness) spawnResultOf(call int) string {
	requests := h.requests("lead")
	if len(requests) < 2 {
		h.tb.Fatalf("the lead was asked %d times, want at least 2", len(requests))
	}
	var all struct {
		Results []map[string]any `json:"sub_agent_results"`
	}
	if err := json.Unmarshal([]byte(requests[1].results()[call].Content), &all); err != nil {
		h.tb.Fatalf("%v: %s", err, requests[1].results()[call].Content)
	}
	var lines []string
	for _, r := range all.Results {
		delete(r, "duration_ms")
		line, err := json.Marshal(r)
		if err != nil {
			h.tb.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

// TestSpawnAgents: of the tasks of one call, one ends with a submitted result,
// one with a plain answer, one with a submitted error, and one because its
// model fails. One of them is ad hoc. Their results come back in one tool
// result, in the order of the tasks.
func TestSpawnAgents(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			useJSON(
				"spawn_agents",
				`{"tasks":[{"task":"one","agent":"leaf"},{"task":"two"},{"task":"three","agent":"leaf"},`+
					`{"task":"four","agent":"leaf"}]}`,
			),
		)
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			switch req.text() {
			case "one":
				return delayed(time.Minute, submits("done one"))(ctx, req)
			case "three":
				return calls(use("submit_error", "error", "no such file"))(ctx, req)
			}
			return nil, &provider.Error{Category: provider.Auth, Message: "no key"}
		}
		plan := h.models["lead"]
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() == "two" { // ad hoc
				return says("implicitly")(ctx, req)
			}
			return plan(ctx, req)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		o := h.awaitOutcome(r, time.Hour)
		if o.Status != run.StatusCompleted || o.Subtree.Runs != 5 || o.ToolCalls != 1 {
			t.Errorf("outcome %+v, want a completed one with 5 runs and 1 tool call", o)
		}
		requests := h.requests("lead")
		for _, a := range append(h.requests("leaf"), requests[1]) {
			if apart := a.began.Sub(requests[0].ended); apart > 50*time.Millisecond {
				t.Errorf("%s began %v after it was spawned, want 50ms at most", a.text(), apart)
			}
		}
		// The ad hoc run is of the lead too. Without its request,
		// spawnResultOf finds the lead's second turn.
		h.asks = []*modelRequest{&requests[0], &requests[2]}
		want := strings.Join([]string{
			`{"agent_id":"r-1-0","outcome":{"success":{"result":"done one"}},"task":"one","tokens":110,"turns":1}`,
			`{"agent_id":"r-1-1","outcome":{"success":{"result":"implicitly"}},"task":"two","tokens":11,"turns":1}`,
			`{"agent_id":"r-1-2","outcome":{"failure":{"error":"no such file","error_kind":"sub_agent_error"}},` +
				`"task":"three","tokens":110,"turns":1}`,
			`{"agent_id":"r-1-3","outcome":{"failure":{"error":"auth: no key","error_kind":"error"}},` +
				`"task":"four","tokens":0,"turns":1}`,
		}, "\n")
		if diff := cmp.Diff(want, h.spawnResultOf(0)); diff != "" {
			t.Errorf("the result of spawn_agents (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestSpawnedRun: a spawned run sees its task and nothing else of its parent,
// and is offered the submit tools, at max_depth no others. An ad hoc run has
// its parent's model and parameters.
func TestSpawnedRun(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(nil, useJSON("spawn_agent", `{"task":"look","context":"at the parser"}`))
		h.agents[0].SystemPrompt = "the lead's own words"
		h.agents[0].Params = configs.Params{Temperature: new(0.5), MaxTokens: 99}
		h.agents[0].SubAgentsConf.MaxDepth = 1
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "a secret")
		h.awaitOutcome(r, time.Hour)
		child := h.requests("lead")[1].Request
		if diff := cmp.Diff([]provider.Message{{Role: provider.User, Content: "Task: look\n\nContext:\nat the " +
			"parser"}}, child.Messages); diff != "" {
			t.Errorf("messages that the child was shown (-want +got):\n%s", diff)
		}
		if child.System != tool.AdHocSystem || child.Model != "lead" || *child.Temperature != 0.5 ||
			child.MaxTokens != 99 {
			t.Errorf("the child's system text %q, model %s, temperature %v, max tokens %d; "+
				"want the text of ad hoc runs, lead, 0.5, 99",
				child.System, child.Model, *child.Temperature, child.MaxTokens)
		}
		if diff := cmp.Diff([]string{"submit_result", "submit_error"}, provider.ToolNames(child.Tools)); diff != "" {
			t.Errorf("tools of the child, at max_depth:\n%s", diff)
		}
		offered := provider.ToolNames(h.requests("lead")[0].Tools)
		if diff := cmp.Diff([]string{"spawn_agent", "spawn_agents"}, offered); diff != "" {
			t.Errorf("tools of the lead:\n%s", diff)
		}
	})
}

// TestSpawnTwice: each of two spawn calls in one turn has the results of its
// own runs.
func TestSpawnTwice(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			useJSON("spawn_agents", `{"tasks":[{"task":"a","agent":"leaf"},{"task":"b","agent":"leaf"}]}`),
			useJSON("spawn_agent", `{"task":"c","agent":"leaf"}`),
		)
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			return submits(req.text())(ctx, req)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		for i, want := range []string{`"r-1-0".*"a".*"r-1-1".*"b"`, `"r-1-2".*"c"`} {
			got := strings.ReplaceAll(h.spawnResultOf(i), "\n", " ")
			at := 0
			for part := range strings.SplitSeq(want, ".*") {
				j := strings.Index(got[at:], part)
				if j < 0 {
					t.Fatalf("call %d: no %s in %s", i, part, got)
				}
				at += j
			}
		}
	})
}

// TestSpawnRefused: when one task of a batch has a mistake, no run starts, and
// the model is told the place of the mistake. The same holds for a batch that
// is too large. An agent with the style spawn alone has no call_agent.
func TestSpawnRefused(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			useJSON("spawn_agents", `{"tasks":[{"task":"a"},{"task":"b","agent":"stranger"}]}`),
			useJSON("spawn_agents", `{"tasks":[{"task":"1"},{"task":"2"},{"task":"3"},{"task":"4"}]}`),
			useJSON("call_agent", `{"agent":"leaf","task":"x"}`),
		)
		h.agents[0].Delegation.MaxBatch = 3
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(
			r,
			`c0=spawn_agents error: task 2 of 2: agent "stranger" is not in this agent's sub_agents list; none `+
				`was started|`+
				`c1=spawn_agents error: 4 tasks, and at most 3 may be spawned at once: none was started|`+
				`c2=Unknown tool: "call_agent"`,
		)
		if n := h.countRuns(r); n != 1 {
			t.Errorf("%d runs, want the lead's alone", n)
		}
	})
}

// TestSubmitAlone: a run that submits a result and an error in one turn has
// submitted neither, and may try again. The same holds for a call of
// submit_result without a result.
func TestSubmitAlone(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead([]string{"leaf"}, useJSON("spawn_agent", `{"task":"x","agent":"leaf"}`))
		var told []provider.ToolResult
		h.models["leaf"] = turns(
			calls(use("submit_result", "result", "early"), use("submit_error", "error", "or not")),
			calls(use("submit_result")),
			func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
				for _, m := range req.Messages {
					told = append(told, m.ToolResults...)
				}
				return submits("late")(ctx, req)
			},
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		want := []provider.ToolResult{
			{
				CallID: "c0",
				Content: "submit_result error: submit_result has to be the only call of its turn: nothing of " +
					"this turn was carried out",
				IsError: true,
			},
			{
				CallID: "c1",
				Content: "submit_error error: submit_result has to be the only call of its turn: nothing of this " +
					"turn was carried out",
				IsError: true,
			},
			{CallID: "c0", Content: `submit_result error: "result" argument is required`, IsError: true},
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("results that the run was shown (-want +got):\n%s", diff)
		}
		if got := h.spawnResultOf(0); !strings.Contains(got, `"result":"late"`) || !strings.Contains(got, `"turns":3`) {
			t.Errorf("result %s, want late, after 3 turns", got)
		}
	})
}

// TestLastTurn: a spawned run that has used its turns has one more turn to
// answer, with no tools but the submit tools. If it calls other tools
// nevertheless, it fails, and its last text is its partial result.
func TestLastTurn(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"answers": true, "calls": false} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.spawningLead([]string{"busy"}, useJSON("spawn_agent", `{"task":"x","agent":"busy"}`))
				h.agents[0].Delegation.MaxTurns = 2
				h.agents[1].SubAgents = []string{"leaf"}
				h.agents = append(h.agents, define("leaf", nil))
				h.models["busy"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
					last := req.Messages[len(req.Messages)-1]
					if answers && last.Role == provider.User && last.Content == tool.LastTurnNotice {
						return submits("what I have")(ctx, req)
					}
					return calls(call("leaf", "y"))(ctx, req)
				}
				h.startWorker("w", workerOptions{})
				h.awaitReady()
				r := h.submit("lead", "go")
				h.awaitOutcome(r, time.Hour)
				if n := h.countRuns(r); n != 4 {
					t.Errorf("%d runs, want 4: in its last turn a run calls no child", n)
				}
				want := `{"agent_id":"r-1-0","outcome":{"success":{"result":"what I have"}},"task":"x",` +
					`"tokens":352,"turns":3}`
				if !answers {
					want = `{"agent_id":"r-1-0","outcome":{"failure":{"error":"agent exceeded maximum ` +
						`conversation turns (3)","error_kind":"turns","partial":"calling"}},"task":"x",` +
						`"tokens":352,"turns":3}`
				}
				if diff := cmp.Diff(want, h.spawnResultOf(0)); diff != "" {
					t.Errorf("the result of spawn_agent (-want +got):\n%s", diff)
				}
				requests := h.requests("busy")
				offered := provider.ToolNames(requests[len(requests)-1].Tools)
				if diff := cmp.Diff([]string{"submit_result", "submit_error"}, offered); diff != "" {
					t.Errorf("tools of the last turn (-want +got):\n%s", diff)
				}
				h.checkVerified()
			})
		})
	}
}

// TestSpawnBounded: a task for which the tree's budget has no room is a failure
// among the other results.
func TestSpawnBounded(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			useJSON("spawn_agents", `{"tasks":[{"task":"a","agent":"leaf"},{"task":"b","agent":"leaf"}]}`),
		)
		h.agents[0].Budget = subjects.Budget{Agents: 2}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		want := `{"agent_id":"r-1-0","outcome":{"success":{"result":"leaf"}},"task":"a","tokens":11,"turns":1}` + "\n" +
			`{"agent_id":"r-1-1","outcome":{"failure":{"error":"budget exceeded: used 2 of 2 agents",` +
			`"error_kind":"budget"}},"task":"b","tokens":0,"turns":0}`
		if diff := cmp.Diff(want, h.spawnResultOf(0)); diff != "" {
			t.Errorf("the result of spawn_agents (-want +got):\n%s", diff)
		}
	})
}

// TestSpawnInADirectory: a spawned run reads its files below the directory that
// its parent names. A run for which that directory does not exist fails before
// its model is asked.
func TestSpawnInADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"top.txt": "at the top", "sub/below.txt": "further down"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			useJSON(
				"spawn_agents",
				`{"tasks":[{"task":"a","agent":"leaf","cwd":"sub"},{"task":"b","agent":"leaf","cwd":"nosuch"}]}`,
			),
		)
		h.agents[1].Workdir, h.agents[1].Files = dir, []string{"*.txt"}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		requests := h.requests("leaf")
		if len(requests) != 1 || !strings.Contains(requests[0].System, "further down") ||
			strings.Contains(requests[0].System, "at the top") {
			t.Errorf("%d requests of leaves, want one that shows the file below sub alone", len(requests))
		}
		if got := h.spawnResultOf(0); !strings.Contains(got, `cwd \"nosuch\": no such file or directory`) {
			t.Errorf("results %s, want one about nosuch", got)
		}
	})
}

// TestAdHocIsNotRemembered: an ad hoc run is not remembered for its parent's
// agent, even when its call is delivered again because the acknowledgement was
// lost.
func TestAdHocIsNotRemembered(t *testing.T) {
	t.Parallel()
	thorough(t)
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		store := memory.Files{Dir: dir}
		h.spawningLeadWithMemory("a secret", says("told"))
		loseAck := func(s step) error {
			if s.Op == "ack" && !s.After && strings.HasSuffix(s.Subject, ".r-1-0.call") {
				return errBusBroken
			}
			return nil
		}
		h.startWorker("w", workerOptions{Config: agentd.Config{Memory: store}, atStep: loseAck})
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		h.startWorker("other", workerOptions{Config: agentd.Config{Memory: store}})
		time.Sleep(10 * time.Minute)
		if text := h.memoryOf(store, "lead"); memory.Count(text) != 1 || strings.Contains(text, "secret\n") {
			t.Errorf("the lead's memory, want its own run alone:\n%s", text)
		}
	})
}

// TestAdHocIsItsParents: an ad hoc run may do what its parent may. The
// definition with which the parent was started counts, and not a file that is
// changed later.
func TestAdHocIsItsParents(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead([]string{"leaf"}, useJSON("spawn_agent", `{"task":"sub"}`))
		h.agents[0].Delegation.MaxBatch = 3
		plan := h.models["lead"]
		w := h.startWorker("w", workerOptions{})
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() != "sub" {
				if req.turn == 1 {
					later := define("lead", []string{"leaf", "deploy"}, spawning)
					later.Model = "sim/other"
					later.Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleSpawn}
					w.serve(append([]configs.Agent{later, define("deploy", nil)}, h.agents[1:]...)...)
				}
				return plan(ctx, req)
			}
			return turns(
				calls(use("spawn_agent", "task", "x", "agent", "deploy"), call("leaf", "y")),
				joinsResults,
			)(ctx, req)
		}
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		want := `c0=spawn_agent error: agent \"deploy\" is not in this agent's sub_agents list|` +
			`c1=Unknown tool: \"call_agent\"`
		requests := h.requests("lead")
		if len(requests) != 4 || !strings.Contains(requests[3].results()[0].Content, want) {
			t.Fatalf("%d requests, want 4; the last one shows %+v, want %s", len(requests),
				requests[len(requests)-1].results(), want)
		}
		if got := requests[1].Tools; !strings.Contains(string(got[1].Parameters["tasks"].Schema), `"maxItems":3`) {
			t.Errorf("the child is offered %+v, want at most 3 tasks at once", got)
		}
	})
}

// TestTooLargeErrorIsCut: a submitted error that is too large for a message is
// cut, and the model is not asked again for it.
func TestTooLargeErrorIsCut(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead([]string{"leaf"}, useJSON("spawn_agent", `{"task":"x","agent":"leaf"}`))
		h.models["leaf"] = calls(use("submit_error", "error", strings.Repeat("é", 10000)))
		h.startWorker("w", workerOptions{maxBody: 8 << 10})
		h.awaitReady()
		h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		if n := len(h.requests("leaf")); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if got := h.spawnResultOf(0); !strings.Contains(got, strings.Repeat("é", 500)) ||
			!strings.Contains(got, `…","error_kind":"sub_agent_error"`) {
			t.Errorf("result %s, want an error that is cut after 500 characters at least", got)
		}
	})
}

// TestCallSizeIncludesItsContext: the size of a call includes all that it
// carries besides its task, here the long list of agents in a policy.
func TestCallSizeIncludesItsContext(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		var many []string
		for i := range 50 {
			many = append(many, fmt.Sprintf("an-agent-with-a-rather-long-name-%d", i))
		}
		h.spawningLead([]string{"leaf"})
		large := use("spawn_agent", "task", strings.Repeat("x", 7<<10), "agent", "leaf")
		// A run's first entry also holds its start. So the large call
		// comes in the second turn.
		h.models["lead"] = turns(calls(call("leaf", "refused")), calls(large), joinsResults)
		many = append(many, "leaf")
		h.agents[0].Policy.Agents = many
		h.startWorker("w", workerOptions{maxBody: 8 << 10})
		h.awaitReady()
		if o := h.awaitOutcome(h.submit("lead", "go"), time.Hour); !strings.HasPrefix(
			o.Result,
			"c0=spawn_agent error: task and context are ",
		) {
			t.Errorf("outcome %s %q %q, want an answer with the refusal of the task", o.Status, o.Error, o.Result)
		}
	})
}
