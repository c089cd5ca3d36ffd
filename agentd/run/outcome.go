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
	KindError        Kind = "error"         // the model, its provider or the agent's definition
	KindTimeout      Kind = "timeout"       // the deadline passed
	KindCancelled    Kind = "cancelled"     // somebody cancelled the run or one above it
	KindTurns        Kind = "turns"         // MaxTurns without a final answer
	KindDepth        Kind = "depth"         // called deeper than allowed
	KindBudget       Kind = "budget"        // a bound on the whole tree
	KindPoisoned     Kind = "poisoned"      // its trigger was delivered too often without effect
	KindUnknownAgent Kind = "unknown_agent" // no worker ever announced the agent

	KindPolicy        Kind = "policy"          // not permitted
	KindSubAgentError Kind = "sub_agent_error" // a spawned run says itself that its task cannot be done
)

// CategoryConfig is the category of a failure whose cause is the agent's definition: a file, a skill.
const CategoryConfig = "config"

// Totals counts the work of a run and everything below it.
type Totals struct {
	provider.Usage
	Runs       int   `json:"runs"`
	ModelCalls int   `json:"model_calls"`
	ToolCalls  int   `json:"tool_calls"`
	ModelMS    int64 `json:"model_ms"` // what the model calls took, one after the other
}

// Add returns the sum of two totals.
func (t Totals) Add(u Totals) Totals {
	return Totals{t.Usage.Add(u.Usage), t.Runs + u.Runs, t.ModelCalls + u.ModelCalls, t.ToolCalls + u.ToolCalls, t.ModelMS + u.ModelMS}
}

// Outcome is how a run ended. It is the body of the message at the run's reply subject.
type Outcome struct {
	Status   Status `json:"status"`
	Result   string `json:"result,omitzero"`
	Error    string `json:"error,omitzero"`
	Kind     Kind   `json:"kind,omitzero"`
	Category string `json:"category,omitzero"` // of a provider's error, or CategoryConfig

	Partial *Partial `json:"partial,omitempty"` // of a failed run: what there was; nil for nothing
	Stopped int      `json:"stopped,omitzero"`  // forks that were ended with it

	Agent      string         `json:"agent"`
	Tree       string         `json:"tree,omitzero"`
	Path       string         `json:"path,omitzero"`
	Worker     string         `json:"worker,omitzero"`
	Model      string         `json:"model,omitzero"`
	StopReason string         `json:"stop_reason,omitzero"`
	Turns      int            `json:"turns"`
	ToolCalls  int            `json:"tool_calls"`
	Usage      provider.Usage `json:"usage"`            // the run's own
	Subtree    Totals         `json:"subtree"`          // the run's and everything below
	DurationMS int64          `json:"duration_ms"`      // from the call to the outcome, waiting included
	ModelMS    int64          `json:"model_ms"`         // of that, what its own model calls took
	Retries    int            `json:"retries,omitzero"` // of its own model calls, after failures that could pass

	Tombs uint64 `json:"tombs,omitzero"` // the newest tombstone its writer knew: of a completed one, when the model was asked
}

// Failure is a failed outcome of a kind.
func Failure(k Kind, format string, args ...any) Outcome {
	return Outcome{Status: StatusFailed, Kind: k, Error: fmt.Sprintf(format, args...)}
}

// DecodeOutcome reads an outcome from a message's body. A body that is none is an error; an unknown
// status counts as malformed.
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
