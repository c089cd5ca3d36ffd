// Package tool is what a model is offered and told: the definitions of tools,
// the checks of their arguments, the exact texts of errors, and the results as
// a conversation. It is pure, and it is the only place where text that a model
// reads about other agents is made.
//
// The texts and the order of the checks are those of axe (its M5 specification,
// 3.6, 3.7 and 3.13).
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
			"agent": {
				Type:        "string",
				Description: "Name of the sub-agent to invoke (must be one of: " + names + ")",
				Required:    true,
			},
			"task":    {Type: "string", Description: "What you need the sub-agent to do", Required: true},
			"context": {Type: "string", Description: "Additional context from your conversation to pass along"},
		},
	}
}

// Caller is what a caller may do.
type Caller struct {
	Allowed []string // agents that it may call
	// of the caller, 0 for a root
	Depth    int
	MaxDepth int // effective
	// of task and context together, as they are sent; 0: no limit
	MaxBytes int

	// what it was started with; nil: nothing but what stands here
	Start    *run.Start
	Offered  []string // the names of its tools
	Agent    string   // its own name
	AdHoc    bool     // it is of nobody's definition
	MaxBatch int      // tasks of one spawn_agents

	At   subjects.Path // the caller
	Turn int           // from 1
}

// Known is what a caller can find out.
type Known struct {
	Agent find // of an agent
	// of another run of the tree; ok is false if there is none
	Run func(subjects.Path) (p Peer, ok bool)
	// whether that run cannot look for mail
	Deaf func(subjects.Path, Peer) bool
}

// Listing is what is known of an agent that may be called.
type Listing struct {
	// provider/model, "" where that is not known
	Model string
	// why its definition cannot be loaded, "" if it can
	Problem string
}

// delegating are the tools that give work to others: those that a policy may
// withhold.
var delegating = append([]string{CallAgentToolName, SpawnAgentToolName, SpawnAgentsToolName}, mailNames...)

// MakesRun reports whether a tool makes runs.
func MakesRun(name string) bool {
	return slices.Contains([]string{CallAgentToolName, SpawnAgentToolName, SpawnAgentsToolName, ForkToolName}, name)
}

// find says what is known of an agent; ok is false if nothing is.
type find = func(agent string) (known Listing, ok bool)

// Turn decides on every tool call of an answer. Spread says how many of the
// decisions each tool call has, nil if all have one.
func Turn(resp *provider.Response, l Caller, k Known) (calls []run.Call, spread []int) {
	hasty := premature(resp.ToolCalls, l)
	for _, tc := range resp.ToolCalls {
		var decided []run.Call
		switch {
		case hasty != "":
			decided = []run.Call{refused(tc, run.KindError, "%s", hasty)}
		case !l.policy().MayUse(tc.Name) && slices.Contains(delegating, tc.Name):
			decided = []run.Call{refused(tc, run.KindPolicy, "not permitted by policy")}
		case l.spoken(tc) && tc.Name == malformedCommand:
			decided = []run.Call{{Error: tc.Arguments["error"], Kind: run.KindError}}
		case !slices.Contains(l.Offered, tc.Name) && (!l.spoken(tc) || !slices.Contains(l.Start.Slash, tc.Name)):
			decided = []run.Call{{Error: fmt.Sprintf("Unknown tool: %q", tc.Name), Kind: run.KindError}}
		case tc.Name == CallAgentToolName:
			decided = []run.Call{Decide(tc, l, k.Agent)}
		case tc.Name == SpawnAgentToolName, tc.Name == SpawnAgentsToolName:
			decided = spawn(tc, l, k.Agent)
		case slices.Contains(mailNames, tc.Name):
			decided = []run.Call{mail(tc, l, k)}
		default:
			decided = []run.Call{refused(tc, run.KindError, "%s", submitProblem(tc))}
		}
		for i := range decided {
			decided[i].Slash = l.spoken(tc)
		}
		calls = append(calls, decided...)
		spread = append(spread, len(decided))
	}
	if len(calls) == len(spread) {
		spread = nil
	}
	crowded(calls)
	for i, c := range calls {
		if c.Op == run.OpFork && !c.Failed() {
			calls[i].To = l.At.Child(l.Turn, i).String()
		}
	}
	return calls, spread
}

// refused is a call that is not made.
func refused(tc provider.ToolCall, k run.Kind, format string, args ...any) run.Call {
	return run.Call{Agent: tc.Arguments["agent"], Error: fmt.Sprintf(tc.Name+" error: "+format, args...), Kind: k}
}

// Decide checks a call of call_agent, in the order that the specification
// gives. A call that may not be made comes back with its error; the deadline of
// one that may is the caller's to set. What is known of the agent is asked
// after all else, and only then.
func Decide(tc provider.ToolCall, l Caller, known find) run.Call {
	if tc.Name != CallAgentToolName {
		return run.Call{Error: fmt.Sprintf("Unknown tool: %q", tc.Name), Kind: run.KindError}
	}
	t := run.Task{Agent: tc.Arguments["agent"], Task: tc.Arguments["task"], Context: tc.Arguments["context"]}
	switch {
	case t.Agent == "":
		return refused(tc, run.KindError, `"agent" argument is required`)
	case t.Task == "":
		return refused(tc, run.KindError, `"task" argument is required`)
	}
	if k, why := l.check(t, known); why != "" {
		return refused(tc, k, "%s", why)
	}
	if why := l.tooLarge(run.Call{Task: t.Task, Context: t.Context}); why != "" {
		return refused(tc, run.KindError, "%s", why)
	}
	return run.Call{Agent: t.Agent}
}

// check says why a task may not be given to the agent that it names, "" if it
// may.
func (l Caller) check(t run.Task, known find) (run.Kind, string) {
	switch {
	case !slices.Contains(l.Allowed, t.Agent):
		return run.KindError, fmt.Sprintf("agent %q is not in this agent's sub_agents list", t.Agent)
	case !l.policy().MayCall(t.Agent):
		return run.KindPolicy, fmt.Sprintf("agent %q is not permitted by policy", t.Agent)
	case l.Depth >= l.MaxDepth:
		return run.KindDepth, l.tooDeep()
	}
	if _, err := subjects.ParseAgent(t.Agent); err != nil {
		return run.KindUnknownAgent, fmt.Sprintf("failed to load agent %q: %v", t.Agent, err)
	}
	a, ok := known(t.Agent)
	switch {
	case !ok:
		return run.KindUnknownAgent, fmt.Sprintf(
			"failed to load agent %q: agent config not found: %s",
			t.Agent,
			t.Agent,
		)
	case a.Problem != "":
		return run.KindError, fmt.Sprintf("failed to load agent %q: %s", t.Agent, a.Problem)
	}
	if _, _, err := provider.SplitModel(a.Model); a.Model != "" && err != nil {
		return run.KindError, fmt.Sprintf("invalid model for agent %q: %v", t.Agent, err)
	}
	return run.KindError, ""
}

func (l Caller) tooDeep() string {
	return fmt.Sprintf("maximum sub-agent depth (%d) reached", l.MaxDepth)
}

// tooLarge says so if a call would not fit into a message, "" if it does.
func (l Caller) tooLarge(c run.Call) string {
	body, err := json.Marshal(l.Start.InputFor(c))
	if err == nil && l.MaxBytes > 0 && len(body) > l.MaxBytes {
		return fmt.Sprintf("task and context are %d bytes, at most %d are passed on", len(body), l.MaxBytes)
	}
	return ""
}

func (l Caller) policy() run.Policy {
	if l.Start == nil {
		return run.Policy{}
	}
	return l.Start.Policy
}

// Refused is a call that may be made but for a bound on the tree.
func Refused(c run.Call, why string) run.Call {
	switch {
	case c.Op == run.OpReview:
	case c.Op == run.OpFork:
		why = "fork error: " + why
	case !c.Spawn:
		why = "call_agent error: " + why
	}
	c.Error, c.Kind = why, run.KindBudget
	return c
}

// Conversation is what the model of the run at a path is shown: the first user
// message, then for each turn its answer and the results of its calls, in call
// order, or who had written to it when it had called nobody.
func Conversation(at subjects.Path, user string, turns []run.Turn) []provider.Message {
	msgs := []provider.Message{{Role: provider.User, Content: user}}
	for i, t := range turns {
		msgs = append(msgs, exchange(t, Results(at, i+1, t))...)
	}
	return msgs
}

// exchange is one turn as its model is shown it.
func exchange(t run.Turn, results []provider.ToolResult) []provider.Message {
	a := t.Entry.Answer
	var msgs []provider.Message
	if len(t.Entry.Calls) > 0 {
		called, said := spoken(t, results)
		msgs = append(msgs, provider.Message{Role: provider.Assistant, Content: a.Content, ToolCalls: called})
		if len(called) > 0 {
			msgs = append(msgs, provider.Message{Role: provider.ToolRole, ToolResults: results[:len(called)]})
		}
		if said != "" {
			msgs = append(msgs, provider.Message{Role: provider.User, Content: said})
		}
	} else if a.Content != "" {
		msgs = append(msgs, provider.Message{Role: provider.Assistant, Content: a.Content})
	}
	if len(t.Notice) > 0 {
		msgs = append(msgs, provider.Message{Role: provider.User, Content: MailNotice(t.Notice)})
	}
	return msgs
}

// Results is one result for each tool call of a run's n-th turn, in call order.
// They are final once it has all its outcomes.
func Results(at subjects.Path, n int, t run.Turn) []provider.ToolResult {
	return results(t, func(i int) (string, bool) { return result(at, n, t, i) })
}

func results(t run.Turn, text func(call int) (text string, isError bool)) []provider.ToolResult {
	if len(t.Entry.Calls) == 0 {
		return nil
	}
	out := make([]provider.ToolResult, len(t.Entry.Answer.ToolCalls))
	for i, tc := range t.Entry.Answer.ToolCalls {
		out[i].CallID = tc.ID
		out[i].Content, out[i].IsError = text(i)
	}
	return out
}

// result is that of the i-th tool call of a run's n-th turn. One that waits for
// its supervisor or for a person may be read, too: of a run that is copied, or
// was ended then.
func result(at subjects.Path, n int, t run.Turn, i int) (text string, isError bool) {
	from, to := t.Entry.CallRange(i)
	switch c := t.Entry.Calls[from]; {
	case t.Withheld() != "" && !c.Failed():
		return t.Withheld(), true
	case !t.CarriedOut() && !c.Failed():
		return undecided, true
	case c.Spawn:
		return aggregate(at, n, t, from, to), false
	case c.Op != run.OpCall && !c.Failed():
		return done(t, from), false
	default:
		return Text(c, t.Outcomes[from])
	}
}

// undecided is the result of a call of a turn on which its supervisor, or a
// person, has not decided.
const undecided = "Nothing of this turn was carried out: nobody has approved of it yet."

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
