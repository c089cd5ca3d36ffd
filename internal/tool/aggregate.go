package tool

import (
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// subAgentResult is one entry of the result of spawn_agent and spawn_agents.
// Its format and that of outcome are those of the sub-agents' design document
// ("Aggregated Results Format"), with the cost of the work beside it.
type subAgentResult struct {
	// AgentID is the path of the run.
	AgentID string  `json:"agent_id"`
	Task    string  `json:"task"`
	Outcome outcome `json:"outcome"`
	// Tokens are those of the run and all runs below it.
	Tokens     int   `json:"tokens"`
	Turns      int   `json:"turns"`
	DurationMS int64 `json:"duration_ms"`
}

type outcome struct {
	Success *success `json:"success,omitempty"`
	Failure *failure `json:"failure,omitempty"`
}

type success struct {
	Result string `json:"result"`
}

type failure struct {
	Error     string `json:"error"`
	ErrorKind string `json:"error_kind"`
	// Partial is the last text of the run before it failed.
	Partial string `json:"partial,omitzero"`
}

// errorKind is the error kind that a model reads for the kind of a failure. The
// set of error kinds is closed, so an unknown kind is an error.
func errorKind(k run.Kind) string {
	switch k {
	case run.KindTimeout:
		return "timed_out"
	case run.KindSubAgentError, run.KindUnknown, run.KindCancelled, run.KindTurns, run.KindDepth, run.KindBudget,
		run.KindPoisoned, run.KindUnknownAgent, run.KindPolicy, run.KindError:
		return string(k)
	}
	return string(run.KindError)
}

// aggregate returns the result of a turn's i-th tool call, with one entry for
// each run.
func aggregate(at subjects.Path, turn int, t run.Turn, i int) string {
	from, to := t.Entry.CallRange(i)
	all := make([]subAgentResult, 0, to-from)
	for i := from; i < to; i++ {
		r := resultOf(t.Entry.Calls[i], t.Outcomes[i])
		r.AgentID = at.Child(turn, i).String()
		all = append(all, r)
	}
	return encode(map[string]any{"sub_agent_results": all})
}

func resultOf(c run.Call, o *run.Outcome) subAgentResult {
	if c.Failed() {
		o = &run.Outcome{Error: c.Error, Kind: c.Kind}
	} else if o == nil {
		o = &run.Outcome{Error: noOutcome, Kind: run.KindError}
	}
	tokens := o.Subtree.InputTokens + o.Subtree.OutputTokens
	r := subAgentResult{Task: c.Task, Tokens: tokens, Turns: o.Turns, DurationMS: o.DurationMS}
	if o.Status == run.StatusCompleted {
		r.Outcome.Success = &success{answerOf(*o)}
		return r
	}
	r.Outcome.Failure = &failure{Error: o.Error, ErrorKind: errorKind(o.Kind), Partial: partialText(o.Partial)}
	return r
}
