package tool_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestSpawnDefinitions: the definitions of the tools of the style spawn are
// those of testdata/spawn.json, byte for byte. A run without sub-agents may not
// name an agent.
func TestSpawnDefinitions(t *testing.T) {
	want, err := os.ReadFile("testdata/spawn.json")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // Go ranges over maps in another order each time
		got, err := json.MarshalIndent(
			append(tool.SpawnTools([]string{"helper"}, "", 10), tool.SubmitTools()...),
			"",
			"  ",
		)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
			t.Fatalf("definitions (-want +got):\n%s", diff)
		}
	}
	if _, named := tool.SpawnTools(nil, "", 10)[0].Parameters["agent"]; named {
		t.Error("a run without sub-agents may name an agent in spawn_agent")
	}
}

// TestSpawnDecided: a call of spawn_agent or spawn_agents makes spawned calls,
// ad hoc if they name no agent. The first mistake in a batch is reported once,
// and refuses the whole batch.
func TestSpawnDecided(t *testing.T) {
	caller := tool.Caller{
		Agent:    "me",
		Depth:    1,
		Start:    &run.Start{Model: "m", SubAgents: []string{"helper", "ghost"}, MaxDepth: 3, MaxBatch: 3},
		Offered:  []string{"spawn_agent", "spawn_agents"},
		MaxBytes: 200,
	}
	lookup := tool.Lookup{
		Agent: func(agent string) (tool.Listing, bool) { return tool.Listing{}, agent == "helper" },
	}
	for _, test := range []struct{ name, tool, arguments, want string }{
		{"one", "spawn_agent", `{"task":"x"}`, ""},
		{"one, by name", "spawn_agent", `{"task":"x","agent":"helper"}`, ""},
		{"several", "spawn_agents", `{"tasks":[{"task":"x"},{"task":"y","agent":"helper","cwd":"sub/dir"}]}`, ""},
		{"nothing", "spawn_agent", `{}`, `spawn_agent error: "task" argument is required`},
		{"no tasks", "spawn_agents", `{"task":"x"}`, `spawn_agents error: "tasks" argument is required`},
		{
			"an empty list", "spawn_agents",
			`{"tasks":[]}`,
			`spawn_agents error: "tasks" argument is empty: want at least one task`,
		},
		{
			"no list", "spawn_agents",
			`{"tasks":"x"}`,
			`spawn_agents error: "tasks" argument: want an array of objects, each with a task`,
		},
		{
			"no objects", "spawn_agents",
			`{"tasks":["x"]}`,
			`spawn_agents error: "tasks" argument: want an array of objects, each with a task`,
		},
		{
			"too many", "spawn_agents",
			`{"tasks":[{"task":"1"},{"task":"2"},{"task":"3"},{"task":"4"}]}`,
			`spawn_agents error: 4 tasks, and at most 3 may be spawned at once: none was started`,
		},
		{
			"one of several without a task", "spawn_agents",
			`{"tasks":[{"task":"x"},{"agent":"helper"}]}`,
			`spawn_agents error: task 2 of 2: "task" argument is required; none was started`,
		},
		{
			"not a sub-agent", "spawn_agents",
			`{"tasks":[{"task":"x","agent":"other"}]}`,
			`spawn_agents error: agent "other" is not in this agent's sub_agents list`,
		},
		{
			"not served", "spawn_agent",
			`{"task":"x","agent":"ghost"}`,
			`spawn_agent error: failed to load agent "ghost": agent config not found: ghost`,
		},
		{
			"another directory", "spawn_agent",
			`{"task":"x","cwd":"../etc"}`,
			`spawn_agent error: cwd "../etc" is not below the working directory`,
		},
		{
			"the root directory", "spawn_agent",
			`{"task":"x","cwd":"/"}`,
			`spawn_agent error: cwd "/" is not below the working directory`,
		},
		{
			"too large", "spawn_agent",
			`{"task":"` + strings.Repeat("x", 200) + `"}`,
			`spawn_agent error: task and context are 292 bytes, at most 200 are passed on`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp := &provider.Response{
				ToolCalls: []provider.ToolCall{provider.NewToolCall("c", test.tool, []byte(test.arguments))},
			}
			calls, spread := tool.Turn(resp, caller, lookup)
			if calls[0].Error != test.want {
				t.Errorf("got %q, want %q", calls[0].Error, test.want)
			}
			if test.want != "" && (len(calls) != 1 || spread != nil || calls[0].Spawn) {
				t.Errorf("got the calls %+v and the spread %v, want one refused call", calls, spread)
			}
			for _, c := range calls {
				if test.want == "" && (!c.Spawn || c.AdHoc != (c.Agent == "me")) {
					t.Errorf("got the call %+v, want a spawned run, ad hoc if it names no agent", c)
				}
			}
		})
	}
	caller.Depth = 3
	resp := &provider.Response{
		ToolCalls: []provider.ToolCall{provider.NewToolCall("c", "spawn_agent", []byte(`{"task":"x"}`))},
	}
	calls, _ := tool.Turn(resp, caller, lookup)
	if want := "spawn_agent error: maximum sub-agent depth (3) reached"; calls[0].Error != want ||
		calls[0].Kind != run.KindDepth {
		t.Errorf("at the largest depth: got %+v, want the error %q of the kind %s", calls[0], want, run.KindDepth)
	}
}

// TestSubmitted: submit_result and submit_error end a run if they were offered,
// and are called alone and with their argument.
func TestSubmitted(t *testing.T) {
	result := provider.NewToolCall("c", "submit_result", []byte(`{"result":"fine"}`))
	failed := provider.NewToolCall("c", "submit_error", []byte(`{"error":"cannot"}`))
	for _, test := range []struct {
		name  string
		calls []provider.ToolCall
		tools []provider.Tool
		want  *run.Outcome
	}{
		{
			"a result",
			[]provider.ToolCall{result},
			tool.SubmitTools(),
			&run.Outcome{Status: run.StatusCompleted, Result: "fine"},
		},
		{
			"an error",
			[]provider.ToolCall{failed},
			tool.SubmitTools(),
			&run.Outcome{Status: run.StatusFailed, Kind: run.KindSubAgentError, Error: "cannot"},
		},
		{"both", []provider.ToolCall{result, failed}, tool.SubmitTools(), nil},
		{"not offered", []provider.ToolCall{result}, tool.SpawnTools(nil, "", 1), nil},
		{
			"without its argument",
			[]provider.ToolCall{provider.NewToolCall("c", "submit_result", []byte(`{"error":"x"}`))},
			tool.SubmitTools(),
			nil,
		},
		{
			"another tool",
			[]provider.ToolCall{provider.NewToolCall("c", "spawn_agent", []byte(`{"result":"x"}`))},
			tool.SpawnTools(nil, "", 1),
			nil,
		},
		{"text", nil, tool.SubmitTools(), nil},
	} {
		got := tool.Submitted(&provider.Response{ToolCalls: test.calls}, test.tools)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: outcome (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestErrorKinds: the result of a failed spawned run has the error kind that
// models know for the failure's kind. A kind of a later version becomes error.
func TestErrorKinds(t *testing.T) {
	for kind, want := range map[run.Kind]string{
		run.KindSubAgentError: "sub_agent_error",
		run.KindTimeout:       "timed_out",
		run.KindCancelled:     "cancelled",
		run.KindTurns:         "turns",
		run.KindDepth:         "depth",
		run.KindBudget:        "budget",
		run.KindPoisoned:      "poisoned",
		run.KindUnknownAgent:  "unknown_agent",
		run.KindPolicy:        "policy",
		run.KindUnknown:       "unknown",
		run.KindError:         "error",
		"of a later version":  "error",
	} {
		turn := run.Turn{
			Entry: run.Entry{
				Answer: &provider.Response{ToolCalls: []provider.ToolCall{{ID: "c"}}},
				Calls:  []run.Call{{Agent: "a", Spawn: true}},
			},
			Outcomes: []*run.Outcome{new(run.Failure(kind, "no"))},
		}
		got := tool.Results(subjects.Root, 1, turn)[0].Content
		if !strings.Contains(got, `"failure":{"error":"no","error_kind":"`+want+`"}`) {
			t.Errorf("the kind %s gives the result %s, want the error kind %s", kind, got, want)
		}
	}
}
