package cmd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// The tests that the specification names in 7.8, and its table 5.6. Those about
// output are in spec_output_test.go, those about parallel calls in
// spec_parallel_test.go.

// TestRun_SubAgentToolInjection: requirements 6.3, 6.4 and 9.1. The request of
// an agent with sub-agents offers the tool call_agent, which names them.
func TestRun_SubAgentToolInjection(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("helper", "run-2"), answers("nothing to delegate"))
	if got := p.wantAnswer("parent", "go"); got != "nothing to delegate" {
		t.Errorf("got the answer %q, want %q", got, "nothing to delegate")
	}
	want := []provider.Tool{{
		Name: "call_agent",
		Description: "Delegate a task to a sub-agent. The sub-agent runs independently with its own context " +
			"and returns only its final result. Available agents: helper, run-2",
		Parameters: map[string]provider.ToolParameter{
			"agent": {
				Type:        "string",
				Description: "Name of the sub-agent to invoke (must be one of: helper, run-2)",
				Required:    true,
			},
			"task":    {Type: "string", Description: "What you need the sub-agent to do", Required: true},
			"context": {Type: "string", Description: "Additional context from your conversation to pass along"},
		},
	}}
	if diff := cmp.Diff(want, p.firstRequest("parent").request.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	p.wantRequests("parent", 1)
}

// TestRun_NoSubAgents_NoTools: requirements 8.4 and 9.2, and 5.2, row 1. The
// request of an agent without sub-agents offers no tools, and its first answer
// is the result.
func TestRun_NoSubAgents_NoTools(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no sub_agents":                         "",
		"an empty list":                         "sub_agents = []\n",
		"5.2 row 1 only their config":           config("max_depth = 5", "parallel = false", "timeout = 7"),
		"5.2 row 1 an empty list, their config": "sub_agents = []\n" + config("max_depth = 5"),
	} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.agent("single", text, answers("shot"))
			if got := p.wantAnswer("single", "go"); got != "shot" {
				t.Errorf("got the answer %q, want %q", got, "shot")
			}
			if p.firstRequest("single").offered {
				t.Error("the request has the key tools, want none")
			}
			p.wantRequests("single", 1)
		})
	}
}

// TestRun_ToolCallsWithoutTools: the rest of requirement 8.4. A model that was
// offered no tools calls some. Its text is the answer, and none of its calls is
// carried out.
func TestRun_ToolCallsWithoutTools(t *testing.T) {
	t.Parallel()
	unasked := func(*modelRequest) reply {
		return reply{
			text:  "what I know",
			calls: []provider.ToolCall{call("helper", "x"), toolCall("rm", map[string]string{})},
		}
	}
	t.Run("an agent without sub_agents", func(t *testing.T) {
		p := newScenario(t)
		p.agent("helper", "", answers("no"))
		p.agent("parent", "", unasked)
		if got := p.runJSON("parent"); got.Content != "what I know" || *got.ToolCalls != 0 ||
			got.InputTokens != callsIn {
			t.Errorf("got content %q, %d tool calls, %d input tokens; want %q, 0 and %d",
				got.Content, *got.ToolCalls, got.InputTokens, "what I know", callsIn)
		}
		p.wantRequests("parent", 1)
		p.wantRequests("helper", 0)
	})
	t.Run("a sub-agent at the depth limit", func(t *testing.T) {
		p := newScenario(t)
		p.agent("helper", "", answers("no"))
		p.agent("parent", subAgents("middle")+config("max_depth = 1"), delegates(call("middle", "x")))
		p.agent("middle", subAgents("helper"), unasked)
		if got := p.wantAnswer("parent", "go"); got != "what I know" {
			t.Errorf("got the answer %q, want %q", got, "what I know")
		}
		p.wantRequests("middle", 1)
		p.wantRequests("helper", 0)
	})
}

// TestRun_ConversationLoop_ToolCall: requirement 8.1 in all three formats. The
// parent and its sub-agent use two formats and two model servers. The second
// request of the parent repeats the first and adds its answer and the result.
func TestRun_ConversationLoop_ToolCall(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai", "anthropic", "ollama"} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			helpers := newModelServer(t)
			child := map[string]string{"openai": "anthropic", "anthropic": "ollama", "ollama": "openai"}[name]
			p.env["AXE_"+strings.ToUpper(child)+"_BASE_URL"] = helpers.url
			helpers.handle("helper", answers("found it"))
			p.agent("helper", "model = \""+child+"/helper\"", nil)
			p.agent("parent", "model = \""+name+"/parent\"\n"+subAgents("helper"), inOrder(
				func(*modelRequest) reply {
					return reply{text: "I ask.", calls: []provider.ToolCall{call("helper", "find")}}
				},
				func(a *modelRequest) reply { return reply{text: "It is here: " + a.results()[0].Content} },
			))
			if got := p.wantAnswer("parent", "where is it?"); got != "It is here: found it" {
				t.Errorf("got the answer %q, want %q", got, "It is here: found it")
			}
			p.wantRequests("parent", 2)
			helpers.wantRequests("helper", 1)
			first, second := p.nthRequest("parent", 1), p.nthRequest("parent", 2)
			id := first.said.calls[0].ID
			want := []provider.Message{
				{Role: provider.User, Content: "where is it?"},
				{
					Role:    provider.Assistant,
					Content: "I ask.",
					ToolCalls: []provider.ToolCall{
						provider.NewToolCall(id, "call_agent", []byte(`{"agent":"helper","task":"find"}`)),
					},
				},
				{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: id, Content: "found it"}}},
			}
			if diff := cmp.Diff(want, second.request.Messages); diff != "" {
				t.Errorf("messages of the second turn (-want +got):\n%s", diff)
			}
			first.request.Messages, second.request.Messages = nil, nil
			if diff := cmp.Diff(first.request, second.request); diff != "" {
				t.Errorf("the rest of the request changed (-first +second):\n%s", diff)
			}
			if key := map[string]string{"openai": openaiKey, "anthropic": anthropicKey}[name]; first.key != key {
				t.Errorf("got key %q, want %q", first.key, key)
			}
		})
	}
}

// TestRun_ConversationLoop_MaxTurns: requirement 8.3. A model calls in each
// turn. The run fails after 50 requests.
func TestRun_ConversationLoop_MaxTurns(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("helper"), calls(call("helper", "")))
	p.agent("helper", "", nil)
	p.wantFailure(1, "agent exceeded maximum conversation turns (50)", "go")
	p.wantRequests("parent", 50)
	if n := len(p.nthRequest("parent", 50).request.Messages); n != 99 {
		t.Errorf("the last request has %d messages, want 99", n)
	}
}

func TestRun_SubAgent_Error_PropagatesAsToolResult(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("nonexistent"), inOrder(calls(call("nonexistent", "x")), answers("I did it myself")))
	if got := p.wantAnswer("parent", "go"); got != "I did it myself" {
		t.Errorf("got the answer %q, want %q", got, "I did it myself")
	}
	const want = `call_agent error: failed to load agent "nonexistent": agent config not found: nonexistent`
	if got := p.nthRequest("parent", 2).results()[0].Content; got != want {
		t.Errorf("got the result %q, want %q", got, want)
	}
}

// TestRun_UnknownTool: requirement 8.2. The name of a tool decides about a
// call, not its arguments.
func TestRun_UnknownTool(t *testing.T) {
	p := newScenario(t)
	p.agent(
		"parent",
		subAgents("helper"),
		delegates(toolCall("read_file", map[string]string{"agent": "helper", "task": "x"}), call("helper", "x")),
	)
	p.agent("helper", "", answers("done"))
	if got := p.wantAnswer("parent", "go"); got != `Unknown tool: "read_file" | done` {
		t.Errorf("got the answer %q, want %q", got, `Unknown tool: "read_file" | done`)
	}
	p.wantRequests("helper", 1)
}

// TestTable_5_6: the table of the conversation loop.
// TestRun_ConversationLoop_MaxTurns has row 3.
func TestTable_5_6(t *testing.T) {
	t.Parallel()
	t.Run("5.6 row 1 the model never calls tools", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper"), answers("alone"))
		if got := p.wantAnswer("parent", "go"); got != "alone" {
			t.Errorf("got the answer %q, want %q", got, "alone")
		}
		p.wantRequests("parent", 1)
	})
	t.Run("5.6 row 2 once, then text", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper"), delegates(call("helper", "x")))
		p.agent("helper", "", answers("done"))
		if got := p.wantAnswer("parent", "go"); got != "done" {
			t.Errorf("got the answer %q, want %q", got, "done")
		}
		p.wantRequests("parent", 2)
	})
	t.Run("5.6 row 4 others the next time", func(t *testing.T) {
		p := newScenario(t)
		p.agent(
			"parent",
			subAgents("a", "b"),
			inOrder(calls(call("a", "x")), calls(call("b", "y"), call("a", "z")), joinsResults),
		)
		p.agent("a", "", func(a *modelRequest) reply { return reply{text: "a: " + a.user()} })
		p.agent("b", "", func(a *modelRequest) reply { return reply{text: "b: " + a.user()} })
		if got := p.wantAnswer("parent", "go"); got != "b: Task: y | a: Task: z" {
			t.Errorf("got the answer %q, want %q", got, "b: Task: y | a: Task: z")
		}
		if got := p.nthRequest("parent", 3).request.Messages[2].ToolResults[0].Content; got != "a: Task: x" {
			t.Errorf("the third request has %q as the result of the first turn, want %q", got, "a: Task: x")
		}
		p.wantRequests("parent", 3)
	})
	for _, test := range []struct {
		name         string
		status, code int
		text         string
	}{
		{"5.6 row 5 auth", http.StatusUnauthorized, 3, "auth (HTTP 401)"},
		{"5.6 row 5 rate limit", http.StatusTooManyRequests, 3, "rate_limit (HTTP 429)"},
		{"5.6 row 5 server", http.StatusInternalServerError, 3, "server (HTTP 500)"},
		{"5.6 row 5 overloaded", 529, 3, "overloaded (HTTP 529)"},
		{"5.6 row 5 bad request", http.StatusBadRequest, 1, "bad_request (HTTP 400)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newScenario(t)
			p.agent(
				"parent",
				subAgents("helper"),
				inOrder(calls(call("helper", "x")), refuses(test.status, "because")),
			)
			p.agent("helper", "", answers("done"))
			p.wantFailure(test.code, test.text+": because", "go")
			p.wantRequests("parent", 2)
		})
	}
	t.Run("5.6 row 6 the time is over", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper"), inOrder(calls(call("helper", "x")), stalls))
		p.agent("helper", "", answers("done"))
		p.wantFailure(3, "timeout after 1s", "go", "--timeout", "1")
		p.wantAborted(p.nthRequest("parent", 2))
	})
	t.Run("5.6 row 7 neither text nor calls", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper"), answers(""))
		if got := p.wantAnswer("parent", "go"); got != "" {
			t.Errorf("got the answer %q, want %q", got, "")
		}
		if got := p.wantAnswer("parent", "--json", "go"); !strings.Contains(got, `"content":"",`) {
			t.Errorf("got %s, want an empty content", got)
		}
		p.wantRequests("parent", 2)
	})
}
