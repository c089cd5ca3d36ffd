// Package tool is what a model is offered and told: the definitions of tools, the checks of their
// arguments, the exact texts of errors, and the results as a conversation. It is pure, and it is the
// only place where text that a model reads about other agents is made.
//
// The texts and the order of the checks are those of axe (its M5 specification, 3.6, 3.7 and 3.13).
package tool

import (
	"encoding/json"
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
func CallAgentTool(allowedAgents []string) provider.Tool {
	names := strings.Join(allowedAgents, ", ")
	return provider.Tool{
		Name:        CallAgentToolName,
		Description: "Delegate a task to a sub-agent. The sub-agent runs independently with its own context and returns only its final result. Available agents: " + names,
		Parameters: map[string]provider.ToolParameter{
			"agent":   {Type: "string", Description: "Name of the sub-agent to invoke (must be one of: " + names + ")", Required: true},
			"task":    {Type: "string", Description: "What you need the sub-agent to do", Required: true},
			"context": {Type: "string", Description: "Additional context from your conversation to pass along"},
		},
	}
}

// Limits is what a caller may do.
type Limits struct {
	Allowed  []string // agents that it may call
	Depth    int      // of the caller, 0 for a root
	MaxDepth int      // effective
	MaxBytes int      // of task and context together, as they are sent; 0: no limit
}

// Listing is what is known of an agent that may be called.
type Listing struct {
	Model   string // provider/model, "" where that is not known
	Problem string // why its definition cannot be loaded, "" if it can
}

// Decide checks one tool call, in the order that the specification gives. A call that may not be made
// comes back with its error; the deadline of one that may is the caller's to set. What is known of the
// agent is asked after all else, and only then.
func Decide(tc provider.ToolCall, l Limits, find func(agent string) (Listing, bool)) run.Call {
	refuse := func(k run.Kind, format string, args ...any) run.Call {
		return run.Call{Agent: tc.Arguments["agent"], Error: fmt.Sprintf(format, args...), Kind: k}
	}
	if tc.Name != CallAgentToolName {
		return run.Call{Error: fmt.Sprintf("Unknown tool: %q", tc.Name), Kind: run.KindError}
	}
	agent, task := tc.Arguments["agent"], tc.Arguments["task"]
	switch {
	case agent == "":
		return refuse(run.KindError, `call_agent error: "agent" argument is required`)
	case task == "":
		return refuse(run.KindError, `call_agent error: "task" argument is required`)
	case !slices.Contains(l.Allowed, agent):
		return refuse(run.KindError, "call_agent error: agent %q is not in this agent's sub_agents list", agent)
	case l.Depth >= l.MaxDepth:
		return refuse(run.KindDepth, "call_agent error: maximum sub-agent depth (%d) reached", l.MaxDepth)
	}
	if _, err := subjects.ParseAgent(agent); err != nil {
		return refuse(run.KindUnknownAgent, "call_agent error: failed to load agent %q: %v", agent, err)
	}
	known, ok := find(agent)
	switch {
	case !ok:
		return refuse(run.KindUnknownAgent, "call_agent error: failed to load agent %q: agent config not found: %s", agent, agent)
	case known.Problem != "":
		return refuse(run.KindError, "call_agent error: failed to load agent %q: %s", agent, known.Problem)
	}
	if _, _, err := provider.SplitModel(known.Model); known.Model != "" && err != nil {
		return refuse(run.KindError, "call_agent error: invalid model for agent %q: %v", agent, err)
	}
	if n := sent(task, tc.Arguments["context"]); l.MaxBytes > 0 && n > l.MaxBytes {
		return refuse(run.KindError, "call_agent error: task and context are %d bytes, at most %d are passed on", n, l.MaxBytes)
	}
	return run.Call{Agent: agent}
}

// Refused is a call that may be made but for a bound on the tree.
func Refused(c run.Call, why string) run.Call {
	return run.Call{Agent: c.Agent, Error: "call_agent error: " + why, Kind: run.KindBudget}
}

// sent is how many bytes a task and its context take on the bus.
func sent(task, context string) int {
	body, err := json.Marshal(run.Input{Task: task, Context: context})
	if err != nil { // two strings always marshal
		return 0
	}
	return len(body)
}

// Conversation is what the model is shown: the first user message, then for each turn its answer and
// the results of its calls, in call order.
func Conversation(user string, turns []run.Turn) []provider.Message {
	msgs := []provider.Message{{Role: provider.User, Content: user}}
	for _, t := range turns {
		a := t.Entry.Answer
		msgs = append(msgs,
			provider.Message{Role: provider.Assistant, Content: a.Content, ToolCalls: a.ToolCalls},
			provider.Message{Role: provider.ToolRole, ToolResults: Results(t)})
	}
	return msgs
}

// Results is one result for each call of a turn that has all its outcomes, in call order.
func Results(t run.Turn) []provider.ToolResult {
	out := make([]provider.ToolResult, len(t.Entry.Calls))
	for i, c := range t.Entry.Calls {
		out[i] = provider.ToolResult{CallID: t.Entry.Answer.ToolCalls[i].ID}
		out[i].Content, out[i].IsError = Text(c, t.Outcomes[i])
	}
	return out
}

// Text is the result of one call as its caller's model reads it.
func Text(c run.Call, o *run.Outcome) (text string, isError bool) {
	switch {
	case c.Failed():
		return c.Error, true
	case o == nil:
		return Failed(c.Agent, "no outcome"), true
	case o.Status == run.StatusCompleted:
		return o.Result, false
	}
	return Failed(c.Agent, o.Error), true
}

// Failed is the text for a sub-agent that failed.
func Failed(agent, why string) string {
	return fmt.Sprintf("Error: sub-agent %q failed - %s. You may retry or proceed without this result.", agent, why)
}
