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
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

func policed(agents, tools []string) func(*configs.Agent) {
	return func(a *configs.Agent) { a.Policy = configs.Policy{Agents: agents, Tools: tools} }
}

// TestPolicyOfATree: what a run may do is what its own policy and those of all
// above it leave. It is not offered the rest, and a model that asks for it
// nevertheless is refused: by a name that it was not told, or by a tool.
func TestPolicyOfATree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define(
				"lead",
				[]string{"mid", "leaf", "other"},
				policed([]string{"mid", "leaf"}, []string{"call_agent", "spawn_agent"}),
			),
			define("mid", []string{"leaf", "other"}, spawning, policed(nil, []string{"spawn_agent", "spawn_agents"})),
			define("leaf", nil), define("other", nil),
		}
		s.parts["lead"] = turns(
			calls(call("mid", "x"), call("other", "y"), toolCall("spawn_agent", map[string]string{"task": "z"})),
			sums,
		)
		s.parts["mid"] = turns(calls(
			toolCall(
				"spawn_agent",
				map[string]string{"task": "a", "agent": "leaf"},
			),
			toolCall("spawn_agent", map[string]string{"task": "b", "agent": "other"}),
			spawnCall("spawn_agents", `{"tasks":[{"task":"c"}]}`),
			call("leaf", "d"),
			toolCall("delete_all", nil),
		), func(ctx context.Context, a *asked) (*provider.Response, error) {
			var parts []string
			for _, r := range a.results()[1:] {
				parts = append(parts, r.Content)
			}
			return says(strings.Join(parts, "; "))(ctx, a)
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(
			r,
			`c0=spawn_agent error: agent "other" is not permitted by policy; spawn_agents error: not permitted by policy; call_agent error: not permitted by policy; `+
				`Unknown tool: "delete_all"|c1=call_agent error: agent "other" is not permitted by policy|c2=Unknown tool: "spawn_agent"`,
		)
		if got := tool.Names(s.asked("mid")[0].req.Tools); !slices.Equal(got, []string{"spawn_agent"}) {
			t.Errorf("offered %v", got)
		}
		if text := s.asked("lead")[0].req.Tools[0].Description; strings.Contains(text, "other") {
			t.Errorf("offered %q", text)
		}
		if n := s.runs(r); n != 3 {
			t.Errorf("%d runs, want the lead's, the mid's and a leaf's", n)
		}
	})
}

// TestPolicyCarried: what a call carries binds whoever is called, though its
// file allows more; and an agent that it does not permit does not run, whoever
// has called it.
func TestPolicyCarried(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define(
				"lead",
				[]string{"mid"},
				policed(nil, []string{"call_agent"}),
			), define("mid", []string{"lead"}, spawning, policed([]string{"lead"}, nil)),
		}
		s.parts["lead"] = turns(calls(call("mid", "x")), sums)
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(r, "c0=mid")
		if tools := s.asked("mid")[0].req.Tools; len(tools) != 0 {
			t.Errorf("offered %v", tool.Names(tools))
		}
		var in run.Input
		for _, m := range s.all(s.child(r, "mid", 0).Call()) {
			if err := json.Unmarshal(m.Body, &in); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(run.Policy{Tools: []string{"call_agent"}}, in.Policy); diff != "" {
			t.Error(diff)
		}

		forged := s.root("mid")
		head := subjects.Header{
			Tree: forged.Tree, Path: forged.Path, MaxDepth: 5, Deadline: time.Now().Add(time.Hour), Reply: forged.Space.Result(forged.Agent, forged.Tree),
		}
		s.write(
			bus.Message{
				Subject: forged.Call(),
				Header:  head.Pairs(),
				Body:    []byte(`{"task":"x","policy":{"agents":["lead"]}}`),
			},
		)
		if o := s.result(forged, time.Minute); o.Kind != run.KindPolicy ||
			o.Error != `agent "mid" is not permitted by policy` {
			t.Errorf("%s %q", o.Kind, o.Error)
		}
	})
}
