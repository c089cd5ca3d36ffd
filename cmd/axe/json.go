package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// envelope is what --json prints. The names from model to duration_ms,
// tool_calls and tool_call_details are axe's; its numbers are the agent's own,
// over all its turns, and those of subtree are of all agents below it too.
type envelope struct {
	Model        string `json:"model"`
	Content      string `json:"content"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	StopReason   string `json:"stop_reason"`
	DurationMS   int64  `json:"duration_ms"`
	// of that, what its own model calls took
	ModelMS int64 `json:"model_ms"`
	// of its own model calls, after failures that could pass
	RetryAttempts   int        `json:"retry_attempts"`
	Turns           int        `json:"turns"`
	ToolCalls       int        `json:"tool_calls"`
	ToolCallDetails []detail   `json:"tool_call_details"`
	Subtree         run.Totals `json:"subtree"`
	Agent           string     `json:"agent"`
	Tree            string     `json:"tree"`
	Error           string     `json:"error,omitzero"`
	Kind            string     `json:"kind,omitzero"`
	Category        string     `json:"category,omitzero"`
	// of a failed run: what there was
	Partial *run.Partial `json:"partial,omitempty"`
}

// detail is one tool call of the agent, or one of the runs that it has spawned,
// in the order of the calls.
type detail struct {
	Turn int    `json:"turn"` // from 0
	Name string `json:"name"`
	// of a spawned run, its own task
	Input json.RawMessage `json:"input"`
	// the first 1024 bytes of the result, or of the error
	Output     string `json:"output"`
	IsError    bool   `json:"is_error"`
	DurationMS int64  `json:"duration_ms"`
	// of the run that it made, on the bus
	Path string `json:"path,omitzero"`
}

// maxOutput is how many bytes of a tool's result are shown.
const maxOutput = 1024

// printJSON writes an outcome on one line and returns the failure that it is,
// if it is one.
func printJSON(ctx context.Context, w io.Writer, c *client.Client, tree subjects.Tree, o run.Outcome) error {
	root, err := c.RootState(ctx, tree)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	err = enc.Encode(envelope{
		Model: o.Model, Content: o.Result, InputTokens: o.Usage.InputTokens, OutputTokens: o.Usage.OutputTokens, CachedTokens: o.Usage.CachedTokens,
		StopReason: o.StopReason, DurationMS: o.DurationMS, ModelMS: o.ModelMS, RetryAttempts: o.Retries, Turns: o.Turns, ToolCalls: o.ToolCalls, ToolCallDetails: details(root.Turns),
		Subtree: o.Subtree, Agent: o.Agent, Tree: o.Tree, Error: o.Error, Kind: string(o.Kind), Category: o.Category, Partial: o.Partial,
	})
	if err != nil {
		return err
	}
	return cli.Failed(o)
}

func details(turns []run.Turn) []detail {
	all := []detail{} // never null
	for n, t := range turns {
		if t.Entry.Kind != run.EntryTurn {
			continue
		}
		for i := range t.Entry.Answer.ToolCalls {
			for from, to := t.Entry.CallRange(i); from < to; from++ {
				all = append(all, detailed(n, t, i, from))
			}
		}
	}
	return all
}

// detailed is one run of a turn's i-th tool call, or what it was refused with.
func detailed(n int, t run.Turn, i, index int) detail {
	tc, call, o := t.Entry.Answer.ToolCalls[i], t.Entry.Calls[index], t.Outcomes[index]
	d := detail{Turn: n, Name: tc.Name, Input: tc.RawArguments()}
	if call.Spawn {
		// strings always marshal
		d.Input, _ = json.Marshal(map[string]string{"agent": call.Agent, "task": call.Task})
	}
	text, failed := result(n, t, i, index)
	d.Output, d.IsError = head(text), failed
	if made(t, index) {
		d.Path = subjects.Root.Child(n+1, index).String()
		d.DurationMS = took(t, index, o)
	}
	return d
}

// result is what came of one run of a tool call: what the model has read of
// that, but that each spawned run has its own.
func result(n int, t run.Turn, i, index int) (text string, failed bool) {
	call, o := t.Entry.Calls[index], t.Outcomes[index]
	switch {
	case call.Spawn && (call.Failed() || t.CarriedOut()):
		if text, failed = tool.Text(call, o); failed && o != nil {
			text = o.Error
		}
		return text, failed
	case call.Op == run.OpWait && !call.Failed() && t.CarriedOut() && o == nil:
		// it still waited when the agent was ended
		return "", false
	}
	r := tool.Results(subjects.Root, n+1, t)[i]
	return r.Content, r.IsError
}

// made reports whether a call of a turn has made a run: those of a turn that is
// withheld have not, nor those whose turn never came where one follows the
// other.
func made(t run.Turn, index int) bool {
	if !t.Entry.Calls[index].MakesRun() || !t.CarriedOut() {
		return false
	}
	waits := func(i int) bool {
		c, o := t.Entry.Calls[i], t.Outcomes[i]
		// without a word of its own
		return c.Op == run.OpCall && c.MakesRun() && (o == nil || o.Path == "")
	}
	for i := range index {
		if t.Entry.Sequential && t.Entry.Calls[index].Op == run.OpCall && waits(i) {
			return false
		}
	}
	return true
}

// took is how long a call took: what its run says, or as long as it was waited
// for.
func took(t run.Turn, i int, o *run.Outcome) int64 {
	switch {
	case o == nil:
		return 0
	case o.Kind == run.KindTimeout && o.DurationMS == 0:
		return max(0, t.Entry.Calls[i].Deadline.Sub(t.Time).Round(time.Millisecond).Milliseconds())
	}
	return o.DurationMS
}

func head(text string) string {
	if len(text) <= maxOutput {
		return text
	}
	return strings.ToValidUTF8(text[:maxOutput], "")
}
