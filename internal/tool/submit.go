package tool

import (
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// The names of the tools that end a spawned run.
const (
	SubmitResultToolName = "submit_result"
	SubmitErrorToolName  = "submit_error"
)

// SubmitTools defines submit_result and submit_error.
func SubmitTools() []provider.Tool {
	return []provider.Tool{
		{
			Name: SubmitResultToolName,
			Description: "Submit your final result to the parent conversation. " +
				"Call this when you have completed your assigned task. After calling this, your conversation ends.",
			Parameters: map[string]provider.ToolParameter{"result": required("Your final result, summary, or output")},
		},
		{
			Name: SubmitErrorToolName,
			Description: "Report that you cannot complete the assigned task. " +
				"Call this if you encounter an unrecoverable error or determine the task is impossible. " +
				"After calling this, your conversation ends.",
			Parameters: map[string]provider.ToolParameter{
				"error": required("Description of why the task could not be completed"),
			},
		},
	}
}

// ends reports whether a tool ends a run.
func ends(name string) bool { return name == SubmitResultToolName || name == SubmitErrorToolName }

// Ending returns the tools that end a run.
func Ending(tools []provider.Tool) []provider.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t provider.Tool) bool { return !ends(t.Name) })
}

// Submitted returns the outcome of an answer that ends its run with a single
// tool call, nil if the answer does not.
func Submitted(resp *provider.Response, tools []provider.Tool) *run.Outcome {
	if len(resp.ToolCalls) != 1 {
		return nil
	}
	tc := resp.ToolCalls[0]
	if submitProblem(tc) != "" || !slices.Contains(provider.ToolNames(tools), tc.Name) {
		return nil
	}
	if tc.Name == SubmitErrorToolName {
		return new(run.Failure(run.KindSubAgentError, "%s", tc.Arguments["error"]))
	}
	return &run.Outcome{Status: run.StatusCompleted, Result: tc.Arguments["result"]}
}

// submitProblem says why a tool call does not end the run, "" if it does.
func submitProblem(tc provider.ToolCall) string {
	argument := map[string]string{SubmitResultToolName: "result", SubmitErrorToolName: "error"}[tc.Name]
	switch {
	case argument == "":
		return "does not end the run"
	case tc.Arguments[argument] == "":
		return fmt.Sprintf("%q argument is required", argument)
	}
	return ""
}

// submit decides on a submission that does not end its run.
func (c Caller) submit(tc provider.ToolCall, _ Lookup) run.Call {
	return refused(tc, run.KindError, "%s", submitProblem(tc))
}

// submitWithOthers returns the refusal of all calls of an answer that submits
// and makes other calls beside that, "" if it does not.
func submitWithOthers(calls []provider.ToolCall, offered []string) string {
	for _, tc := range calls {
		if len(calls) > 1 && ends(tc.Name) && slices.Contains(offered, tc.Name) {
			return tc.Name + " has to be the only call of its turn: nothing of this turn was carried out"
		}
	}
	return ""
}
