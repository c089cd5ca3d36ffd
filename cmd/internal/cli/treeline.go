package cli

import (
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/price"
)

// TreeLine is a tree as axe ps -o json prints it.
type TreeLine struct {
	Tree   string            `json:"tree"`
	Agent  string            `json:"agent"`
	Status client.TreeStatus `json:"status"`
	Began  time.Time         `json:"began"`
	Ended  time.Time         `json:"ended,omitzero"`
	Runs   int               `json:"runs"`
	Done   int               `json:"done"`
	Turns  int               `json:"turns"`

	InputTokens  int   `json:"input_tokens"`
	OutputTokens int   `json:"output_tokens"`
	CachedTokens int   `json:"cached_tokens"`
	ModelCalls   int   `json:"model_calls"`
	ToolCalls    int   `json:"tool_calls"`
	ModelMS      int64 `json:"model_ms"`
	price.Line

	WaitsFor string   `json:"waits_for,omitzero"`
	Task     string   `json:"task,omitzero"`
	Error    string   `json:"error,omitzero"`
	Kind     run.Kind `json:"kind,omitzero"`
}

// treeCost is the cost of a tree of a list.
func treeCost(t client.TreeInfo, d Display) price.Cost {
	if d.Prices.IsZero() {
		return price.Cost{}
	}
	return d.Prices.Cost(t.ByModel())
}

// TreeLineOf describes a tree of a list.
func TreeLineOf(t client.TreeInfo, d Display) TreeLine {
	return TreeLine{
		Tree: t.Root.Tree.String(), Agent: t.Root.Agent.String(), Status: t.Status,
		Began: t.Began.UTC(), Ended: t.Ended, Runs: t.Runs, Done: t.Done, Turns: t.Turns,
		InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, CachedTokens: t.CachedTokens,
		ModelCalls: t.ModelCalls, ToolCalls: t.ToolCalls, ModelMS: t.ModelMS,
		Line:     treeCost(t, d).Line(),
		WaitsFor: WaitsFor(t, d.Now), Task: t.Task, Error: t.Outcome.Error, Kind: t.Outcome.Kind,
	}
}
