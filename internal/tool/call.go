package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// CallAgentToolName is the name of the tool that makes a child run.
const CallAgentToolName = "call_agent"

// CallAgentTool defines call_agent for an agent that may call the given ones.
// It is exported because the specification names it (requirement 6.3).
func CallAgentTool(agents []string) provider.Tool {
	names := strings.Join(agents, ", ")
	return provider.Tool{
		Name: CallAgentToolName,
		Description: "Delegate a task to a sub-agent. The sub-agent runs independently with its own context " +
			"and returns only its final result. Available agents: " + names,
		Parameters: map[string]provider.ToolParameter{
			"agent":   required("Name of the sub-agent to invoke (must be one of: " + names + ")"),
			"task":    required("What you need the sub-agent to do"),
			"context": optional("Additional context from your conversation to pass along"),
		},
	}
}

// required is a string that a call of a tool must have.
func required(description string) provider.ToolParameter {
	return provider.ToolParameter{Type: "string", Description: description, Required: true}
}

// optional is a string that a call of a tool may have.
func optional(description string) provider.ToolParameter {
	return provider.ToolParameter{Type: "string", Description: description}
}

// callAgent decides on a call of call_agent. The checks come in the order of
// the specification. The look-up of the agent and the size of the call are the
// last ones. The call has no deadline yet (run.Entry.Schedule).
func (c Caller) callAgent(tc provider.ToolCall, l Lookup) run.Call {
	t := run.Task{Agent: tc.Arguments["agent"], Task: tc.Arguments["task"], Context: tc.Arguments["context"]}
	if t.Agent == "" {
		return refused(tc, run.KindError, `"agent" argument is required`)
	}
	call := run.Call{Agent: t.Agent}
	if k, why := c.mayGive(call, t, l); why != "" {
		return refused(tc, k, "%s", why)
	}
	return call
}

// mayCall checks whether the caller may give a task to an agent. It returns the
// refusal, "" if there is none.
func (c Caller) mayCall(agent string, l Lookup) (run.Kind, string) {
	switch {
	case !slices.Contains(c.Start.SubAgents, agent):
		return run.KindError, fmt.Sprintf("agent %q is not in this agent's sub_agents list", agent)
	case !c.Start.Policy.MayCall(agent):
		return run.KindPolicy, NotPermitted(agent)
	}
	if why := c.tooDeep(); why != "" {
		return run.KindDepth, why
	}
	if _, err := subjects.ParseAgent(agent); err != nil {
		return run.KindUnknownAgent, fmt.Sprintf("failed to load agent %q: %v", agent, err)
	}
	a, ok := l.Agent(agent)
	switch {
	case !ok:
		return run.KindUnknownAgent, fmt.Sprintf("failed to load agent %q: %s", agent, NotFound(agent))
	case a.Problem != "":
		return run.KindError, NotLoaded(agent, a.Problem)
	}
	if _, _, err := provider.SplitModel(a.Model); a.Model != "" && err != nil {
		return run.KindError, fmt.Sprintf("invalid model for agent %q: %v", agent, err)
	}
	return run.KindError, ""
}
