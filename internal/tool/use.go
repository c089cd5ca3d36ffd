package tool

import (
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
