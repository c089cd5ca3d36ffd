package tool

import (
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// subAgentResult is one entry of what the model of a run that spawned others
// reads; its format and that of outcome are those of the sub-agents' design
// document ("Aggregated Results Format"), with what the work took beside it.
type subAgentResult struct {
	AgentID    string  `json:"agent_id"` // its path
	Task       string  `json:"task"`
	Outcome    outcome `json:"outcome"`
	Tokens     int     `json:"tokens"` // of it and all below it
	Turns      int     `json:"turns"`
	DurationMS int64   `json:"duration_ms"`
}

type outcome struct {
	Success *success `json:"success,omitempty"`
	Failure *failure `json:"failure,omitempty"`
}

type success struct {
	Result string `json:"result"`
}

type failure struct {
	Error     string    `json:"error"`
	ErrorKind ErrorKind `json:"error_kind"`
	Partial   string    `json:"partial,omitzero"` // what it said last
}

// ErrorKind says to a model why a spawned run failed.
type ErrorKind string

// The error kinds. The set is closed.
const (
	// it said itself that its task cannot be done
	SubAgentError ErrorKind = "sub_agent_error"
	TimedOut      ErrorKind = "timed_out"
	Cancelled     ErrorKind = "cancelled"
	TurnsUsedUp   ErrorKind = "turns"
	TooDeep       ErrorKind = "depth"
	OverBudget    ErrorKind = "budget"
	Poisoned      ErrorKind = "poisoned"
	UnknownAgent  ErrorKind = "unknown_agent"
	NotPermitted  ErrorKind = "policy"
	// its model, its provider or its definition; anything else
	ModelError ErrorKind = "error"
)

// KindOf is the error kind of a failed outcome.
func KindOf(k run.Kind) ErrorKind {
	switch k {
	case run.KindSubAgentError:
		return SubAgentError
	case run.KindTimeout:
		return TimedOut
	case run.KindCancelled:
		return Cancelled
	case run.KindTurns:
		return TurnsUsedUp
	case run.KindDepth:
		return TooDeep
	case run.KindBudget:
		return OverBudget
	case run.KindPoisoned:
		return Poisoned
	case run.KindUnknownAgent:
		return UnknownAgent
	case run.KindPolicy:
		return NotPermitted
	case run.KindError:
	}
	return ModelError
}

// aggregate is the result of a tool call for which the calls from one to before
// another were made.
func aggregate(at subjects.Path, turn int, t run.Turn, from, to int) string {
	all := make([]subAgentResult, 0, to-from)
	for i := from; i < to; i++ {
		r := entry(t.Entry.Calls[i], t.Outcomes[i])
		r.AgentID = at.Child(turn, i).String()
		all = append(all, r)
	}
	return encode(map[string]any{"sub_agent_results": all})
}

func entry(c run.Call, o *run.Outcome) subAgentResult {
	r := subAgentResult{Task: c.Task}
	switch {
	case c.Failed():
		r.Outcome.Failure = &failure{Error: c.Error, ErrorKind: KindOf(c.Kind)}
		return r
	case o == nil:
		r.Outcome.Failure = &failure{Error: "no outcome", ErrorKind: ModelError}
		return r
	case o.Status == run.StatusCompleted:
		r.Outcome.Success = &success{o.Result}
	default:
		r.Outcome.Failure = &failure{Error: o.Error, ErrorKind: KindOf(o.Kind)}
		if o.Partial != nil {
			r.Outcome.Failure.Partial = o.Partial.Text
		}
	}
	r.Tokens, r.Turns, r.DurationMS = o.Subtree.InputTokens+o.Subtree.OutputTokens, o.Turns, o.DurationMS
	return r
}
