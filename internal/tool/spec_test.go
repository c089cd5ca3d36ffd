package tool_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// Tests that 7.7 of axe's M5 specification names: those of the tool's
// definition (6.1 to 6.4), and that of a refusal by depth, which the real
// program does not reach. The others of 7.7 run the real program:
// cmd/spec_call_test.go.

// This declaration does not compile if the function has another type.
var _ func([]string) provider.Tool = tool.CallAgentTool // reqs 6.1 and 6.3

// TestCallAgentTool_Definition: the definition has the words of the
// specification, and the names of the given agents alone.
func TestCallAgentTool_Definition(t *testing.T) {
	got := tool.CallAgentTool([]string{"helper", "runner"})
	t.Run("req 6.2", func(t *testing.T) {
		const name = tool.CallAgentToolName
		if name != "call_agent" || got.Name != name {
			t.Errorf("the constant is %q and the tool's name %q, want call_agent", name, got.Name)
		}
	})
	t.Run("req 6.3", func(t *testing.T) {
		want := provider.Tool{
			Name: "call_agent",
			Description: "Delegate a task to a sub-agent. The sub-agent runs independently with its own context " +
				"and returns only its final result. Available agents: helper, runner",
			Parameters: map[string]provider.ToolParameter{
				"agent": {
					Type:        "string",
					Description: "Name of the sub-agent to invoke (must be one of: helper, runner)",
					Required:    true,
				},
				"task": {Type: "string", Description: "What you need the sub-agent to do", Required: true},
				"context": {
					Type:        "string",
					Description: "Additional context from your conversation to pass along",
					Required:    false,
				},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("definition (-want +got):\n%s", diff)
		}
	})
	t.Run("req 6.4", func(t *testing.T) {
		other := tool.CallAgentTool([]string{"x"})
		for _, text := range []string{other.Description, other.Parameters["agent"].Description} {
			if strings.Contains(text, "helper") || !strings.Contains(text, ": x") {
				t.Errorf("got the text %q for the agent x, want x as the only agent in it", text)
			}
		}
	})
}

func TestCallAgentTool_EmptyAgents(t *testing.T) {
	got := tool.CallAgentTool([]string{})
	if got.Name != "call_agent" || len(got.Parameters) != 3 ||
		!strings.HasSuffix(got.Description, "Available agents: ") {
		t.Errorf("got %+v, want call_agent with 3 parameters and no agent", got)
	}
	if diff := cmp.Diff([]string{"agent", "task"}, got.Required()); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
}

// TestExecuteCallAgent_DepthLimitReached: a run at the maximum depth, or
// deeper, calls an agent. A worker does not offer it the tool. The call is
// refused as requirement 7.3, step 5, says, before the agent is looked up.
func TestExecuteCallAgent_DepthLimitReached(t *testing.T) {
	for _, depth := range []int{3, 4} {
		l := tool.Caller{Depth: depth, Start: &run.Start{SubAgents: []string{"helper"}, MaxDepth: 3}}
		c := decide(call(`{"agent":"helper","task":"x"}`), l, func(string) (tool.Listing, bool) {
			t.Error("the agent is looked up, want a refusal before")
			return tool.Listing{}, true
		})
		text, isError := tool.Text(c, nil)
		if want := "call_agent error: maximum sub-agent depth (3) reached"; text != want || !isError {
			t.Errorf("depth %d: got %q, %t; want %q", depth, text, isError, want)
		}
	}
}
