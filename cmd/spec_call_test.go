package cmd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// These are the tests that the specification names in 7.7. Its ExecuteCallAgent
// is not a function here: a call goes over the bus to a worker that has the
// agent. In each test a parent's model makes the call, and the test looks at
// the result that comes back. The parent uses Anthropic's format, which says
// whether a result is an error. TestExecuteCallAgent_DepthLimitReached is in
// internal/tool, since a model at the limit is offered no tool (see
// TestRun_ToolCallsWithoutTools).

// caller adds a parent that makes calls and then answers with their results.
func (p *scenario) caller(text string, tcs ...provider.ToolCall) {
	p.t.Helper()
	p.agent("parent", "model = \"anthropic/parent\"\n"+text, delegates(tcs...))
}

// results runs the parent, which has to answer, and returns the results of its
// first turn.
func (p *scenario) results(args ...string) []provider.ToolResult {
	p.t.Helper()
	p.wantAnswer("parent", append(args, "go")...)
	p.wantRequests("parent", 2)
	return p.nthRequest("parent", 2).results()
}

// wantResult runs the parent, and expects this as the only result of its first
// turn.
func (p *scenario) wantResult(want string, isError bool) {
	p.t.Helper()
	got := p.results()
	if diff := cmp.Diff([]provider.ToolResult{{CallID: "toolu_parent_1_0", Content: want, IsError: isError}},
		got); diff != "" {
		p.t.Errorf("result (-want +got):\n%s", diff)
	}
}

// TestExecuteCallAgent_Success: the answer of a sub-agent is the result of the
// call, also if the sub-agent makes calls of its own.
func TestExecuteCallAgent_Success(t *testing.T) {
	t.Parallel()
	t.Run("7.3 step 15", func(t *testing.T) {
		p := newScenario(t)
		p.caller(subAgents("helper"), call("helper", "look"))
		p.agent("helper", "", answers("All is well.\n"))
		p.wantResult("All is well.\n", false)
		p.wantRequests("helper", 1)
	})
	t.Run("7.3 step 14 nested", func(t *testing.T) {
		p := newScenario(t)
		p.caller(subAgents("middle"), call("middle", "look"))
		p.agent(
			"middle",
			subAgents("helper"),
			inOrder(calls(call("helper", "one")), calls(call("helper", "two")), func(a *modelRequest) reply {
				return reply{text: a.request.Messages[2].ToolResults[0].Content + " and " + a.results()[0].Content}
			}),
		)
		p.agent("helper", "", func(a *modelRequest) reply { return reply{text: a.user()} })
		p.wantResult("Task: one and Task: two", false)
	})
}

// TestExecuteCallAgent_AlwaysAResult: each call has one result, in its place,
// for any output of the model.
func TestExecuteCallAgent_AlwaysAResult(t *testing.T) {
	p := newScenario(t)
	p.caller(
		subAgents("helper", "ghost"),
		call("", ""),
		call("ghost", "x"),
		provider.NewToolCall("", "call_agent", []byte(`{}`)),
		call("helper", "x"),
		call("stranger", "x"),
		call("helper", ""),
		toolCall("rm", map[string]string{"path": "/"}),
		provider.NewToolCall("", "call_agent", []byte(`{"agent":["helper"],"task":{"x":null}}`)),
	)
	p.agent("helper", "", answers("done"))
	want := []provider.ToolResult{
		{Content: `call_agent error: "agent" argument is required`, IsError: true},
		{Content: `call_agent error: failed to load agent "ghost": agent config not found: ghost`, IsError: true},
		{Content: `call_agent error: "agent" argument is required`, IsError: true},
		{Content: "done"},
		{Content: `call_agent error: agent "stranger" is not in this agent's sub_agents list`, IsError: true},
		{Content: `call_agent error: "task" argument is required`, IsError: true},
		{Content: `Unknown tool: "rm"`, IsError: true},
		{Content: `call_agent error: agent "[\"helper\"]" is not in this agent's sub_agents list`, IsError: true},
	}
	for i := range want {
		want[i].CallID = numbered("toolu")(&modelRequest{agent: "parent", turn: 1}, i)
	}
	if diff := cmp.Diff(want, p.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	p.wantRequests("helper", 1)
}

func TestExecuteCallAgent_AgentNotAllowed(t *testing.T) {
	p := newScenario(t)
	p.caller(subAgents("helper"), call("other", "look"))
	p.agent("helper", "", answers("no"))
	p.agent("other", "", answers("no"))
	p.wantResult(`call_agent error: agent "other" is not in this agent's sub_agents list`, true)
	p.wantRequests("other", 0)
	p.wantRequests("helper", 0)
}

func TestExecuteCallAgent_EmptyAgentName(t *testing.T) {
	p := newScenario(t)
	p.caller(subAgents("helper"), call("", ""))
	p.agent("helper", "", answers("no"))
	p.wantResult(`call_agent error: "agent" argument is required`, true)
}

func TestExecuteCallAgent_EmptyTask(t *testing.T) {
	p := newScenario(t)
	p.caller(
		subAgents("helper"),
		toolCall("call_agent", map[string]string{"agent": "other", "task": "", "context": "x"}),
	)
	p.agent("helper", "", answers("no"))
	// The missing task is reported, not that other may not be called.
	p.wantResult(`call_agent error: "task" argument is required`, true)
}

func TestExecuteCallAgent_AgentNotFound(t *testing.T) {
	p := newScenario(t)
	p.caller(subAgents("nobody"), call("nobody", "look"))
	p.wantResult(`call_agent error: failed to load agent "nobody": agent config not found: nobody`, true)
}

// TestExecuteCallAgent_InvalidModel: requirement 7.3, step 7.
func TestExecuteCallAgent_InvalidModel(t *testing.T) {
	t.Parallel()
	for model, why := range map[string]string{
		"gpt": "expected provider/model-name", "/gpt": "empty provider",
		"openai/": "empty model name",
	} {
		t.Run(model, func(t *testing.T) {
			p := newScenario(t)
			p.caller(subAgents("helper"), call("helper", "look"))
			p.agent("helper", `model = "`+model+`"`, answers("no"))
			p.wantResult(
				`call_agent error: invalid model for agent "helper": invalid model format "`+model+`": `+why,
				true,
			)
		})
	}
}

// TestExecuteCallAgent_APIError: an error of the provider of a sub-agent is the
// result of the call. The request is not made again.
func TestExecuteCallAgent_APIError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		said   string
		want   string
	}{
		{"5.7 row 4 401", http.StatusUnauthorized, "invalid x-api-key", "auth (HTTP 401): invalid x-api-key"},
		{"5.7 row 5 429", http.StatusTooManyRequests, "slow down", "rate_limit (HTTP 429): slow down"},
		{"500", http.StatusInternalServerError, "out of memory", "server (HTTP 500): out of memory"},
		{"529", 529, "too busy", "overloaded (HTTP 529): too busy"},
		{"400", http.StatusBadRequest, "no such model", "bad_request (HTTP 400): no such model"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newScenario(t)
			p.caller(subAgents("helper"), call("helper", "look"))
			p.agent("helper", "", refuses(test.status, test.said))
			p.wantResult(failed("helper", test.want), true)
			p.wantRequests("helper", 1) // no retry
		})
	}
}

// TestExecuteCallAgent_Timeout: the request of the sub-agent is aborted, and
// the parent goes on.
func TestExecuteCallAgent_Timeout(t *testing.T) {
	p := newScenario(t)
	p.caller(subAgents("slow")+config("timeout = 1"), call("slow", "look"))
	p.agent("slow", "", stalls)
	p.wantResult(failed("slow", "timeout after 1s"), true)
	p.wantAborted(p.firstRequest("slow"))
}

func TestExecuteCallAgent_WithContext(t *testing.T) {
	p := newScenario(t)
	p.caller(
		subAgents("helper"),
		toolCall("call_agent", map[string]string{"agent": "helper", "task": "look", "context": "line 7\n"}),
	)
	p.agent("helper", "", answers("seen"))
	p.wantResult("seen", false)
	const want = "Task: look\n\nContext:\nline 7\n"
	if got := p.firstRequest("helper").user(); got != want {
		t.Errorf("the sub-agent was asked %q, want %q", got, want)
	}
}

// TestExecuteCallAgent_WithoutContext: a call without a context, or with an
// empty one, gives the sub-agent the task alone.
func TestExecuteCallAgent_WithoutContext(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]string{
		"5.3 row 4 no context":    {"agent": "helper", "task": "look"},
		"5.3 row 5 empty context": {"agent": "helper", "task": "look", "context": ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.caller(subAgents("helper"), toolCall("call_agent", args))
			p.agent("helper", "", answers("seen"))
			p.wantResult("seen", false)
			if got := p.firstRequest("helper").user(); got != "Task: look" {
				t.Errorf("the sub-agent was asked %q, want %q", got, "Task: look")
			}
		})
	}
}

// TestExecuteCallAgent_Isolation: requirement 7.3, steps 8 to 12. The request
// of a sub-agent contains the settings of its own file and the call, and
// nothing from its parent.
func TestExecuteCallAgent_Isolation(t *testing.T) {
	p := newScenario(t)
	elsewhere := newModelServer(t)
	elsewhere.handle("tiny", answers("seen"))
	p.env["AXE_OLLAMA_BASE_URL"] = elsewhere.url
	for _, who := range []string{"parent", "helper"} {
		p.write(who+"/notes.md", "Notes of the "+who+".")
		p.write("skills/"+who+".md", "Skill of the "+who+".")
	}
	own := func(who string) string {
		return "workdir = \"../" + who + "\"\nfiles = [\"*.md\"]\nskill = \"../skills/" + who + ".md\"\n"
	}
	p.agent("parent", own("parent")+subAgents("helper")+"[params]\ntemperature = 1.5\nmax_tokens = 111\n",
		inOrder(func(*modelRequest) reply {
			return reply{text: "I will delegate.", calls: []provider.ToolCall{call("helper", "look")}}
		}, answers("done")))
	p.agent(
		"helper",
		"model = \"ollama/tiny\"\n"+own("helper")+"[params]\ntemperature = 0.25\nmax_tokens = 222\n",
		nil,
	)
	p.wantAnswer("parent", "what the user said")

	parent, helper := p.firstRequest("parent").request, elsewhere.firstRequest("tiny").request
	system := func(who string) string {
		return "You are " + who + ".\n\n---\n\n## Skill\n\nSkill of the " + who +
			".\n\n---\n\n## Context Files\n\n### notes.md\n```markdown\nNotes of the " + who + ".\n```"
	}
	t.Run("7.3 step 8 own workdir, files, skill and system prompt", func(t *testing.T) {
		if diff := cmp.Diff([]string{system("parent"), system("helper")},
			[]string{parent.System, helper.System}); diff != "" {
			t.Errorf("system (-want +got):\n%s", diff)
		}
	})
	t.Run("7.3 step 10 own provider", func(t *testing.T) {
		if a := elsewhere.firstRequest("tiny"); a.format != "ollama" || p.firstRequest("parent").format != "openai" {
			t.Errorf("got the format %s for the sub-agent and %s for the parent, want ollama and openai",
				a.format, p.firstRequest("parent").format)
		}
	})
	t.Run("7.3 step 11 only the task", func(t *testing.T) {
		if diff := cmp.Diff([]provider.Message{{Role: provider.User, Content: "Task: look"}},
			helper.Messages); diff != "" {
			t.Errorf("messages to the sub-agent's model (-want +got):\n%s", diff)
		}
	})
	t.Run("7.3 step 12 own model and parameters", func(t *testing.T) {
		want := provider.Request{
			Model:       "tiny",
			System:      system("helper"),
			Messages:    helper.Messages,
			Temperature: new(0.25),
			MaxTokens:   222,
		}
		if diff := cmp.Diff(want, helper); diff != "" {
			t.Errorf("request of the sub-agent (-want +got):\n%s", diff)
		}
		if *parent.Temperature != 1.5 || parent.MaxTokens != 111 || len(parent.Tools) != 1 {
			t.Errorf("got the parent's request %+v, want its own parameters and one tool", parent)
		}
	})
}

// TestExecuteCallAgent_Options: the fields of the options in requirement 7.2
// take effect in a tree of three agents. Here a field is in a call's headers,
// or the worker knows it.
func TestExecuteCallAgent_Options(t *testing.T) {
	p := newScenario(t)
	elsewhere := newModelServer(t)
	elsewhere.handle("leaf", answers("from below"))
	delete(p.env, "ANTHROPIC_API_KEY")
	delete(p.env, "AXE_ANTHROPIC_BASE_URL")
	p.write(
		"config/axe/config.toml",
		"[providers.anthropic]\napi_key = \"sk-of-the-file\"\nbase_url = \""+elsewhere.url+"\"\n",
	)
	p.agent("root", subAgents("middle")+config("max_depth = 2"), delegates(call("middle", "x"), call("leaf", "x")))
	p.agent("middle", subAgents("leaf"), delegates(call("leaf", "y")))
	p.agent("leaf", "model = \"anthropic/leaf\"\n"+subAgents("middle"), nil)
	end := p.run("root", "-v", "go")

	const refused = `call_agent error: agent "leaf" is not in this agent's sub_agents list`
	t.Run("AllowedAgents are those of the caller", func(t *testing.T) {
		if got := end.stdout; got != "from below | "+refused+"\n" {
			t.Errorf("got the answer %q, want %q", got, "from below | "+refused+"\n")
		}
	})
	t.Run("ParentModel is no other agent's", func(t *testing.T) {
		middle, leaf := p.firstRequest("middle").request.Model, elsewhere.firstRequest("leaf").request.Model
		if middle != "middle" || leaf != "leaf" {
			t.Errorf("got the models %s and %s, want middle and leaf", middle, leaf)
		}
	})
	t.Run("Depth and MaxDepth", func(t *testing.T) {
		if !p.firstRequest("root").offered || !p.firstRequest("middle").offered ||
			elsewhere.firstRequest("leaf").offered {
			t.Error("want tools offered at the depths 0 and 1, and none at 2")
		}
	})
	t.Run("GlobalConfig", func(t *testing.T) { // 7.3 step 9
		if key := elsewhere.firstRequest("leaf").key; key != "sk-of-the-file" {
			t.Errorf("got key %q, want that of config.toml", key)
		}
		if key := p.firstRequest("middle").key; key != openaiKey {
			t.Errorf("got key %q, want that of the environment", key)
		}
	})
	t.Run("Verbose and Stderr", func(t *testing.T) {
		for _, line := range []string{
			`[sub-agent] Calling "middle" (depth 1) with task: x`,
			`[sub-agent] Calling "leaf" (depth 2) with task: y`,
		} {
			if !strings.Contains(end.stderr, line) || strings.Contains(end.stdout, "[sub-agent]") {
				t.Errorf("got stderr %q, stdout %q; want %q on stderr alone", end.stderr, end.stdout, line)
			}
		}
	})
}
