package tool

import (
	"cmp"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// use decides on a call of a tool that a tool run carries out. The tool itself
// checks the arguments.
func (c Caller) use(tc provider.ToolCall, t run.ServedTool) run.Call {
	call := run.Call{
		Op: run.OpTool, Agent: t.By, Tool: cmp.Or(t.Tool, t.Name), Effect: t.Effect, OnUnknown: t.OnUnknown,
		Patience: t.Timeout, Arguments: tc.RawArguments(),
	}
	if why := c.tooLarge(call); why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return call
}

// NeedsApproval says why a person has to approve a turn with some calls, "" if
// none has to. Approve names the tools that a person approves, as
// run.ServedTool.FullName does.
func NeedsApproval(approve []string, calls []run.Call) string {
	var names []string
	for _, c := range calls {
		for _, name := range []string{c.Tool, c.Agent + "/" + c.Tool} {
			if c.Op == run.OpTool && !c.Failed() && slices.Contains(approve, name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + ": the agent's file wants a person to approve it first"
}
