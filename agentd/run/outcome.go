package run

import (
	"encoding/json"
	"fmt"

	"github.com/axebus/axe/provider"
)

// Status says whether a run did what it was asked.
type Status string

// The two ways to end.
const (
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
)

// Kind says why a run failed.
type Kind string

// The kinds of failure.
const (
	// the model, its provider or the agent's definition
	KindError   Kind = "error"
	KindTimeout Kind = "timeout" // the deadline passed
	// somebody cancelled the run or one above it
	KindCancelled Kind = "cancelled"
	KindTurns     Kind = "turns"  // MaxTurns without a final answer
	KindDepth     Kind = "depth"  // called deeper than allowed
	KindBudget    Kind = "budget" // a bound on the whole tree
	// its trigger was delivered too often without effect
	KindPoisoned Kind = "poisoned"
	// no worker ever announced the agent
	KindUnknownAgent Kind = "unknown_agent"

	KindPolicy Kind = "policy" // not permitted
	// a spawned run says itself that its task cannot be done
	KindSubAgentError Kind = "sub_agent_error"
)

// CategoryConfig is the category of a failure whose cause is the agent's
// definition: a file, a skill.
const CategoryConfig = "config"

// Totals counts the work of a run and everything below it.
type Totals struct {
	provider.Usage
	Runs       int `json:"runs"`
	ModelCalls int `json:"model_calls"`
	ToolCalls  int `json:"tool_calls"`
	// what the model calls took, one after the other
	ModelMS int64 `json:"model_ms"`
}

// Add returns the sum of two totals.
func (t Totals) Add(u Totals) Totals {
	return Totals{
		t.Usage.Add(u.Usage),
		t.Runs + u.Runs,
		t.ModelCalls + u.ModelCalls,
		t.ToolCalls + u.ToolCalls,
		t.ModelMS + u.ModelMS,
	}
}

// Outcome is how a run ended. It is the body of the message at the run's reply
// subject.
type Outcome struct {
	Status Status `json:"status"`
	Result string `json:"result,omitzero"`
	Error  string `json:"error,omitzero"`
	Kind   Kind   `json:"kind,omitzero"`
	Reason Reason `json:"reason,omitzero"`
	// of a provider's error, or CategoryConfig
	Category string `json:"category,omitzero"`

	// of a failed run: what there was; nil for nothing
	Partial *Partial `json:"partial,omitempty"`
	Stopped int      `json:"stopped,omitzero"` // forks that were ended with it

	Agent      string         `json:"agent"`
	Tree       string         `json:"tree,omitzero"`
	Path       string         `json:"path,omitzero"`
	Worker     string         `json:"worker,omitzero"`
	Model      string         `json:"model,omitzero"`
	StopReason string         `json:"stop_reason,omitzero"`
	Turns      int            `json:"turns"`
	ToolCalls  int            `json:"tool_calls"`
	Usage      provider.Usage `json:"usage"` // the run's own
	// the run's and everything below
	Subtree Totals `json:"subtree"`
	// from the call to the outcome, waiting included
	DurationMS int64 `json:"duration_ms"`
	// of that, what its own model calls took
	ModelMS int64 `json:"model_ms"`
	// of its own model calls, after failures that could pass
	Retries int `json:"retries,omitzero"`

	// the newest tombstone its writer knew: of a completed one, when the
	// model was asked
	CancelsSeen uint64 `json:"tombs,omitzero"`
}

// Failure is a failed outcome of a kind.
func Failure(k Kind, format string, args ...any) Outcome {
	return Outcome{Status: StatusFailed, Kind: k, Error: fmt.Sprintf(format, args...)}
}

// End says why a run failed that has this outcome.
func (o Outcome) End() End {
	return End{Kind: o.Kind, Reason: o.Reason, Text: o.Error, Category: o.Category}
}

// DecodeOutcome reads an outcome from a message's body. A body that is none is
// an error; an unknown status counts as malformed.
func DecodeOutcome(b []byte) (Outcome, error) {
	var o Outcome
	if err := json.Unmarshal(b, &o); err != nil {
		return Outcome{}, fmt.Errorf("outcome: %w", err)
	}
	if o.Status != StatusCompleted && o.Status != StatusFailed {
		return Outcome{}, fmt.Errorf("outcome: status %q is not known", o.Status)
	}
	return o, nil
}
