package tool

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Caller is the run that makes the tool calls.
type Caller struct {
	// Path is the run's path.
	Path subjects.Path
	// Agent is the name of the run's agent.
	Agent string
	// AdHoc says that the run has no definition of its own.
	AdHoc bool
	// Depth is the number of runs above it, 0 for a root.
	Depth int
	// Turn is the number of the turn that makes the calls, from 1.
	Turn int
	// Start is the run's start.
	Start *run.Start
	// Offered are the names of the tools that the turn was offered.
	Offered []string
	// MaxBytes bounds the body of a child's call, and the text of a
	// message. 0 is no bound.
	MaxBytes int
}

// Lookup finds the agents and runs that a decision depends on. A look-up may
// take a request to the bus.
type Lookup struct {
	// Agent finds an agent. It returns false if no worker has announced it.
	Agent func(agent string) (Listing, bool)
	// Run finds another run of the tree. It returns false if there is none.
	Run func(subjects.Path) (Peer, bool)
	// ReadsMail reports whether a run that Run has found can read mail.
	ReadsMail func(subjects.Path, Peer) bool
}

// Listing is an agent that may be called, as workers have announced it.
type Listing struct {
	// Model is "provider/model", or "" where it is not known.
	Model string
	// Problem says why its definition cannot be loaded, "" if it can.
	Problem string
}

// Peer is another run of the same tree.
type Peer struct {
	Agent string
	Ended bool
}

// handler decides on a tool call: one decision for the call, or one for each of
// its tasks.
type handler = func(Caller, provider.ToolCall, Lookup) []run.Call

// handlers are the handlers of all tools, by name.
var handlers = map[string]handler{
	CallAgentToolName:    single(Caller.callAgent),
	SpawnAgentToolName:   Caller.spawn,
	SpawnAgentsToolName:  Caller.spawn,
	ForkToolName:         single(Caller.fork),
	SendToolName:         single(Caller.send),
	CheckMailToolName:    single(Caller.checkMail),
	WaitToolName:         single(Caller.wait),
	KillToolName:         single(Caller.kill),
	SubmitResultToolName: single(Caller.submit),
	SubmitErrorToolName:  single(Caller.submit),
}

func single(decide func(Caller, provider.ToolCall, Lookup) run.Call) handler {
	return func(c Caller, tc provider.ToolCall, l Lookup) []run.Call { return []run.Call{decide(c, tc, l)} }
}

// delegates reports whether a tool gives work to other runs or writes to them.
// A policy may withhold these tools.
func delegates(name string) bool { return handlers[name] != nil && !ends(name) }

// MakesRun reports whether a tool makes runs.
func MakesRun(name string) bool {
	return slices.Contains([]string{CallAgentToolName, SpawnAgentToolName, SpawnAgentsToolName, ForkToolName}, name)
}

// Turn decides on every tool call of an answer. Spread is the number of
// decisions for each tool call, nil if each has one.
func Turn(resp *provider.Response, c Caller, l Lookup) (calls []run.Call, spread []int) {
	alone := submitWithOthers(resp.ToolCalls, c.Offered)
	for _, tc := range resp.ToolCalls {
		var decided []run.Call
		if alone != "" {
			decided = []run.Call{refused(tc, run.KindError, "%s", alone)}
		} else if refusal, ok := c.admit(tc); !ok {
			decided = []run.Call{refusal}
		} else if served, ok := c.Start.ServedTool(tc.Name); ok {
			decided = []run.Call{c.use(tc, served)}
		} else {
			decided = handlers[tc.Name](c, tc, l)
		}
		for i := range decided {
			decided[i].Slash = c.isSlashCall(tc)
		}
		calls = append(calls, decided...)
		spread = append(spread, len(decided))
	}
	if len(calls) == len(spread) {
		spread = nil
	}
	refuseConcurrentWaits(calls)
	for i, call := range calls {
		if call.Op == run.OpFork && !call.Failed() {
			calls[i].To = c.Path.Child(c.Turn, i)
		}
	}
	return calls, spread
}

// admit checks whether a call's tool may be used at all. If it may not, ok is
// false and refusal is the decision.
func (c Caller) admit(tc provider.ToolCall) (refusal run.Call, ok bool) {
	slash := c.isSlashCall(tc)
	t, served := c.Start.ServedTool(tc.Name)
	switch {
	case served && !c.Start.Policy.MayUse(t.FullName()),
		!served && delegates(tc.Name) && !c.Start.Policy.MayUse(tc.Name):
		return refused(tc, run.KindPolicy, "not permitted by policy"), false
	case slash && tc.Name == malformedCommand:
		return run.Call{Error: tc.Arguments["error"], Kind: run.KindError}, false
	case handlers[tc.Name] == nil && !served:
	case slices.Contains(c.Offered, tc.Name), slash && slices.Contains(c.Start.Slash, tc.Name):
		return run.Call{}, true
	}
	return run.Call{Error: fmt.Sprintf("Unknown tool: %q", tc.Name), Kind: run.KindError}, false
}

// refused is a call that is not made. Its error begins with the tool's name.
func refused(tc provider.ToolCall, k run.Kind, format string, args ...any) run.Call {
	return run.Call{Agent: tc.Arguments["agent"], Error: fmt.Sprintf(tc.Name+" error: "+format, args...), Kind: k}
}

// Refused returns an accepted call as one that a budget has no room for.
func Refused(c run.Call, why string) run.Call {
	switch {
	case c.Op == run.OpReview, c.Op == run.OpTool:
	case c.Op == run.OpFork:
		why = ForkToolName + " error: " + why
	case !c.Spawn:
		why = CallAgentToolName + " error: " + why
	}
	c.Error = why
	c.Kind = run.KindBudget
	return c
}

// tooDeep returns the refusal of a call below the caller's maximum depth, "" if
// the call is not too deep.
func (c Caller) tooDeep() string {
	if c.Depth < c.Start.MaxDepth {
		return ""
	}
	return fmt.Sprintf("maximum sub-agent depth (%d) reached", c.Start.MaxDepth)
}

// tooLarge returns the refusal of a call with a body of more than MaxBytes, ""
// if it has no more.
func (c Caller) tooLarge(call run.Call) string {
	body, err := json.Marshal(c.Start.InputFor(call))
	if err == nil && c.MaxBytes > 0 && len(body) > c.MaxBytes {
		what := "task and context are"
		if call.Op == run.OpTool {
			what = "the arguments are"
		}
		return fmt.Sprintf("%s %d bytes, at most %d are passed on", what, len(body), c.MaxBytes)
	}
	return ""
}
