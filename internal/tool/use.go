package tool

import (
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// use decides on a call of a tool that a tool run carries out. The tool itself
// checks the arguments.
func (c Caller) use(tc provider.ToolCall, t run.ServedTool) run.Call {
	call := run.Call{
		Op: run.OpTool, Agent: t.By, Tool: t.Name, Effect: t.Effect, OnUnknown: t.OnUnknown,
		Patience: t.Timeout, Arguments: tc.RawArguments(),
	}
	if why := c.tooLarge(call); why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return call
}

// NeedsApproval says why a person has to approve a turn with some calls, "" if
// none has to. Approve names the tools that a person approves.
func NeedsApproval(approve []string, calls []run.Call) string {
	var names []string
	for _, c := range calls {
		if c.Op == run.OpTool && !c.Failed() && slices.Contains(approve, c.Tool) && !slices.Contains(names, c.Tool) {
			names = append(names, c.Tool)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + ": the agent's file wants a person to approve it first"
}
