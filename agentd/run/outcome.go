package run

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/axebus/axe/provider"
)

// Status says whether a run has completed its task.
type Status string

// The statuses.
const (
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
)

// Kind is the class of a failure.
type Kind string

// The kinds of failure.
const (
	// KindError is any failure without a kind of its own, for example of
	// the model, its provider or the agent's definition.
	KindError   Kind = "error"
	KindTimeout Kind = "timeout"
	// KindCancelled is the end of a run that was cancelled, or that is
	// below one that ended.
	KindCancelled Kind = "cancelled"
	// KindTurns is the end of a run without an answer after its last turn.
	KindTurns Kind = "turns"
	// KindDepth is the refusal of a call below the largest depth.
	KindDepth Kind = "depth"
	// KindBudget is the end of a run, or the refusal of a call, at a bound
	// of a budget.
	KindBudget Kind = "budget"
	// KindPoisoned is the end of a run after too many deliveries of its
	// trigger have failed or ended without a return, or of a run with a
	// corrupt history.
	KindPoisoned Kind = "poisoned"
	// KindUnknownAgent is the refusal of a call of an agent that no worker
	// has announced.
	KindUnknownAgent Kind = "unknown_agent"
	// KindPolicy is the refusal of a call, or the end of a run, that a
	// policy does not permit.
	KindPolicy Kind = "policy"
	// KindUnknown is the end of a tool run that may have taken effect: a
	// worker began it, and did not report.
	KindUnknown Kind = "unknown"
	// KindSubAgentError is the end of a spawned run that reports its task
	// as impossible.
	KindSubAgentError Kind = "sub_agent_error"
)

// CategoryConfig is the category of a failure that the agent's definition has
// caused: a file, a skill.
const CategoryConfig = "config"

// Totals counts the work of one or more runs.
type Totals struct {
	provider.Usage
	Runs       int `json:"runs"`
	ModelCalls int `json:"model_calls"`
	ToolCalls  int `json:"tool_calls"`
	// ModelMS sums the time of the model calls, in milliseconds.
	ModelMS int64 `json:"model_ms"`
	// Others is the part of Usage that other models used than the run's
	// own, by model. It is nil if there are none.
	Others map[string]provider.Usage `json:"others,omitempty"`
}

// Add returns the sum of the totals of two runs with the same model.
func (t Totals) Add(u Totals) Totals {
	sum := Totals{
		Usage: t.Usage.Add(u.Usage), Runs: t.Runs + u.Runs, ModelCalls: t.ModelCalls + u.ModelCalls,
		ToolCalls: t.ToolCalls + u.ToolCalls, ModelMS: t.ModelMS + u.ModelMS, Others: t.Others,
	}
	for model, used := range u.Others {
		sum = sum.withOther(model, used)
	}
	return sum
}

// AddBelow returns the sum of the totals of a run with a model and of a run
// below it.
func (t Totals) AddBelow(model string, below Outcome) Totals {
	if below.Model == model || below.Model == "" {
		return t.Add(below.Subtree).without(model)
	}
	return t.Add(below.Subtree).withOther(below.Model, below.Subtree.own()).without(model)
}

// withOther returns totals with the tokens of another model, which Usage has
// already. The map may be shared, so it is copied.
func (t Totals) withOther(model string, used provider.Usage) Totals {
	if used == (provider.Usage{}) {
		return t
	}
	others := maps.Clone(t.Others)
	if others == nil {
		others = map[string]provider.Usage{}
	}
	others[model] = others[model].Add(used)
	t.Others = others
	return t
}

// without returns totals of a run with a model, of which Others may have that
// model too.
func (t Totals) without(model string) Totals {
	if _, has := t.Others[model]; has {
		t.Others = maps.Clone(t.Others)
		delete(t.Others, model)
	}
	return t
}

// own is the part of the usage that is of no other model.
func (t Totals) own() provider.Usage {
	own := t.Usage
	for _, used := range t.Others {
		own.InputTokens -= used.InputTokens
		own.OutputTokens -= used.OutputTokens
		own.CachedTokens -= used.CachedTokens
	}
	return own
}

// ByModel returns the tokens by model, for totals of a run with a model. It is
// empty for a run without one.
func (t Totals) ByModel(model string) map[string]provider.Usage {
	used := maps.Clone(t.Others)
	if used == nil {
		used = map[string]provider.Usage{}
	}
	if own := t.own(); own != (provider.Usage{}) {
		used[model] = used[model].Add(own)
	}
	return used
}

// Outcome is how a run ended. It is the body of the message at the run's reply
// subject.
type Outcome struct {
	Status Status `json:"status"`
	// Result is the answer of a completed run.
	Result string `json:"result,omitzero"`
	// Error says why the run failed, for people and models.
	Error  string `json:"error,omitzero"`
	Kind   Kind   `json:"kind,omitzero"`
	Reason Reason `json:"reason,omitzero"`
	// Category is the category of a provider's error, or CategoryConfig.
	Category string `json:"category,omitzero"`

	// Partial has the results that a failed run had. It is nil if there
	// were none.
	Partial *Partial `json:"partial,omitempty"`
	// Artifacts are those of the run and of the runs below it that have
	// ended, at most MaxArtifacts.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// MoreArtifacts is the number of those that are not in Artifacts.
	MoreArtifacts int `json:"more_artifacts,omitzero"`
	// Stopped is the number of forks that were cancelled with the run.
	Stopped int `json:"stopped,omitzero"`

	Agent string `json:"agent"`
	// Tool is the tool's name, for a tool run.
	Tool string `json:"tool,omitzero"`
	Tree string `json:"tree,omitzero"`
	Path string `json:"path,omitzero"`
	// Worker is the name of the worker that published the outcome.
	Worker string `json:"worker,omitzero"`
	Model  string `json:"model,omitzero"`
	// StopReason is the model's reason for ending its last answer.
	StopReason string `json:"stop_reason,omitzero"`
	// Truncated says that the last answer was cut at the limit of output
	// tokens.
	Truncated bool `json:"truncated,omitzero"`
	Turns     int  `json:"turns"`
	ToolCalls int  `json:"tool_calls"`
	// Usage has the tokens of the run alone.
	Usage provider.Usage `json:"usage"`
	// Subtree has the totals of the run and of all runs below it.
	Subtree Totals `json:"subtree"`
	// DurationMS is the time from the call to the outcome, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
	// ModelMS is the time of the run's own model calls, in milliseconds.
	ModelMS int64 `json:"model_ms"`
	// Retries is the number of the run's failed requests to its model that
	// were made again.
	Retries int `json:"retries,omitzero"`

	// CancelsSeen is the sequence of the newest cancel message that the
	// worker knew. For a completed run it is the newest one when the worker
	// last asked the model or the tool, and 0 if it has asked neither.
	CancelsSeen uint64 `json:"tombs,omitzero"`
}

// Failure makes a failed outcome of a kind.
func Failure(k Kind, format string, args ...any) Outcome {
	return Outcome{Status: StatusFailed, Kind: k, Error: fmt.Sprintf(format, args...)}
}

// End returns the reason of a failed outcome.
func (o Outcome) End() End {
	return End{Kind: o.Kind, Reason: o.Reason, Text: o.Error, Category: o.Category}
}

// DecodeOutcome reads an outcome from the body of its message. An unknown
// status is an error.
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
