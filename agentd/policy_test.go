package agentd_test

import (
	"context"
	"encoding/json"
	"slices"
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

// withPolicy bounds the agents and the tools of an agent. A nil list sets no
// bound.
func withPolicy(agents, tools []string) func(*configs.Agent) {
	return func(a *configs.Agent) { a.Policy = configs.Policy{Agents: agents, Tools: tools} }
}

// TestPolicyOfATree: a run may do only what its own policy and the policies of
// all runs above it allow. Other tools and agents are not offered. A model that
// calls one nevertheless is refused.
func TestPolicyOfATree(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define(
				"lead",
				[]string{"mid", "leaf", "other"},
				withPolicy([]string{"mid", "leaf"}, []string{"call_agent", "spawn_agent"}),
			),
			define("mid", []string{"leaf", "other"}, spawning,
				withPolicy(nil, []string{"spawn_agent", "spawn_agents"})),
			define("leaf", nil), define("other", nil),
		}
		h.models["lead"] = turns(
			calls(call("mid", "x"), call("other", "y"), use("spawn_agent", "task", "z")),
			joinsResults,
		)
		h.models["mid"] = turns(calls(
			use("spawn_agent", "task", "a", "agent", "leaf"),
			use("spawn_agent", "task", "b", "agent", "other"),
			useJSON("spawn_agents", `{"tasks":[{"task":"c"}]}`),
			call("leaf", "d"),
			use("delete_all"),
		), func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			var parts []string
			for _, r := range req.results()[1:] {
				parts = append(parts, r.Content)
			}
			return says(strings.Join(parts, "; "))(ctx, req)
		})
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(
			r,
			`c0=spawn_agent error: agent "other" is not permitted by policy; spawn_agents error: not permitted `+
				`by policy; call_agent error: not permitted by policy; `+
				`Unknown tool: "delete_all"|c1=call_agent error: agent "other" is not permitted by policy|`+
				`c2=Unknown tool: "spawn_agent"`,
		)
		if got := provider.ToolNames(h.requests("mid")[0].Tools); !slices.Equal(got, []string{"spawn_agent"}) {
			t.Errorf("mid was offered %v, want spawn_agent alone", got)
		}
		if text := h.requests("lead")[0].Tools[0].Description; strings.Contains(text, "other") {
			t.Errorf("lead was offered an agent that its policy forbids: %q", text)
		}
		if n := h.countRuns(r); n != 3 {
			t.Errorf("%d runs, want 3: the lead's, the mid's and a leaf's", n)
		}
	})
}

// TestPolicyCarried: the policy in a call binds the callee, though its file
// allows more. A call whose policy does not allow its own agent fails.
func TestPolicyCarried(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"mid"}, withPolicy(nil, []string{"call_agent"})),
			define("mid", []string{"lead"}, spawning, withPolicy([]string{"lead"}, nil)),
		}
		h.models["lead"] = turns(calls(call("mid", "x")), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "c0=mid")
		if tools := h.requests("mid")[0].Tools; len(tools) != 0 {
			t.Errorf("mid was offered %v, want no tool", provider.ToolNames(tools))
		}
		var in run.Input
		for _, m := range h.readAll(h.child(r, "mid", 0).Call()) {
			if err := json.Unmarshal(m.Body, &in); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(run.Policy{Tools: []string{"call_agent"}}, in.Policy); diff != "" {
			t.Errorf("the policy in the call of mid:\n%s", diff)
		}

		forged := h.root("mid")
		head := subjects.Header{
			Tree: forged.Tree, Path: forged.Path, MaxDepth: 5,
			Deadline: time.Now().Add(time.Hour), Reply: forged.Space.Result(forged.Agent, forged.Tree),
		}
		h.write(bus.Message{
			Subject: forged.Call(),
			Header:  head.Pairs(),
			Body:    []byte(`{"task":"x","policy":{"agents":["lead"]}}`),
		})
		if o := h.awaitOutcome(forged, time.Minute); o.Kind != run.KindPolicy ||
			o.Error != `agent "mid" is not permitted by policy` {
			t.Errorf("outcome %s %q, want a refusal by policy", o.Kind, o.Error)
		}
	})
}
