package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// envelope is the output of axe run -o json. The keys from model to
// duration_ms, tool_calls and tool_call_details are axe's. Their numbers are
// the agent's own, over all its turns. The numbers in subtree include all
// agents below it.
type envelope struct {
	Model        string `json:"model"`
	Content      string `json:"content"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	StopReason   string `json:"stop_reason"`
	// Truncated says that the answer was cut at the limit of output tokens.
	Truncated  bool  `json:"truncated,omitzero"`
	DurationMS int64 `json:"duration_ms"`
	// ModelMS is the time of the agent's own model calls, in milliseconds.
	ModelMS int64 `json:"model_ms"`
	// RetryAttempts counts the repeated requests of the agent's model
	// calls.
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
	// Partial holds the results that a failed run had.
	Partial *run.Partial `json:"partial,omitempty"`
	// Artifacts are those of the whole tree. MoreArtifacts counts those
	// that are not listed.
	Artifacts     []run.Artifact `json:"artifacts,omitempty"`
	MoreArtifacts int            `json:"more_artifacts,omitzero"`
}

// detail is one tool call of the agent, or one of its spawned runs, in call
// order.
type detail struct {
	Turn int    `json:"turn"` // from 0
	Name string `json:"name"`
	// Input holds the arguments of the tool call. For a spawned run it
	// holds the agent and the task of that run.
	Input json.RawMessage `json:"input"`
	// Output holds the first maxOutput bytes of the result or the error.
	Output string `json:"output"`
	// Truncated says that Output is not the whole of it.
	Truncated  bool  `json:"truncated,omitzero"`
	IsError    bool  `json:"is_error"`
	DurationMS int64 `json:"duration_ms"`
	// Path is the path of the child run, "" if the call started none.
	Path string `json:"path,omitzero"`
}

// maxOutput bounds detail.Output, in bytes.
const maxOutput = 1024

// printJSON writes an outcome on one line. It returns the error of a failed
// outcome.
func printJSON(ctx context.Context, w io.Writer, c *client.Client, tree subjects.Tree, o run.Outcome) error {
	root, err := c.RootState(ctx, tree)
	if err != nil {
		return err
	}
	// The subtree of the output has numbers alone.
	o.Subtree.Others = nil
	err = cli.PrintJSON(w, envelope{
		Model: o.Model, Content: o.Result, StopReason: o.StopReason, Truncated: o.Truncated,
		InputTokens: o.Usage.InputTokens, OutputTokens: o.Usage.OutputTokens, CachedTokens: o.Usage.CachedTokens,
		DurationMS: o.DurationMS, ModelMS: o.ModelMS, RetryAttempts: o.Retries,
		Turns: o.Turns, ToolCalls: o.ToolCalls, ToolCallDetails: details(root.Turns),
		Subtree: o.Subtree, Agent: o.Agent, Tree: o.Tree,
		Error: o.Error, Kind: string(o.Kind), Category: o.Category, Partial: o.Partial,
		Artifacts: o.Artifacts, MoreArtifacts: o.MoreArtifacts,
	})
	if err != nil {
		return err
	}
	return cli.Failed(o)
}

func details(turns []run.Turn) []detail {
	all := []detail{} // [] in JSON, not null
	for n, t := range turns {
		if t.Entry.Kind != run.EntryTurn {
			continue
		}
		for i := range t.Entry.Answer.ToolCalls {
			for from, to := t.Entry.CallRange(i); from < to; from++ {
				all = append(all, detailOf(n, t, i, from))
			}
		}
	}
	return all
}

// detailOf describes the call with an index, which belongs to a turn's i-th
// tool call. The outcome of a refused call is its refusal.
func detailOf(n int, t run.Turn, i, index int) detail {
	tc := t.Entry.Answer.ToolCalls[i]
	call := t.Entry.Calls[index]
	o := t.Outcomes[index]
	d := detail{Turn: n, Name: tc.Name, Input: tc.RawArguments()}
	if call.Spawn {
		// Marshalling strings cannot fail.
		d.Input, _ = json.Marshal(map[string]string{"agent": call.Agent, "task": call.Task})
	}
	result, failed := resultOf(n, t, i, index)
	d.Output, d.IsError = text.Head(result, maxOutput), failed
	d.Truncated = len(d.Output) < len(result)
	if made(t, index) {
		d.Path = subjects.Root.Child(n+1, index).String()
		d.DurationMS = took(t, index, o)
	}
	return d
}

// resultOf returns the text that the model read as the result of a call. A
// model reads the results of spawned runs together; here each of them has its
// own.
func resultOf(n int, t run.Turn, i, index int) (result string, failed bool) {
	call, o := t.Entry.Calls[index], t.Outcomes[index]
	switch {
	case call.Spawn && (call.Failed() || t.CarriedOut()):
		result, failed = tool.Text(call, o)
		if failed && o != nil {
			result = o.Error
		}
		return result, failed
	case call.Op == run.OpWait && !call.Failed() && t.CarriedOut() && o == nil:
		// The call still waited when the run ended.
		return "", false
	}
	r := tool.Results(subjects.Root, n+1, t)[i]
	return r.Content, r.IsError
}

// made reports whether a call has started a run. Calls of a withheld turn have
// not, nor have the calls that had to wait for the one at which the run ended.
func made(t run.Turn, index int) bool {
	call := t.Entry.Calls[index]
	if !call.MakesRun() && !call.HasReply() || !t.CarriedOut() {
		return false
	}
	waits := func(i int) bool {
		c, o := t.Entry.Calls[i], t.Outcomes[i]
		// An outcome without a path was not written by the child.
		return c.HasReply() && (o == nil || o.Path == "")
	}
	for i := range index {
		if t.Entry.Ordered() && call.HasReply() && waits(i) {
			return false
		}
	}
	return true
}

// took returns the duration of a call in milliseconds: the duration of its run,
// or of the wait if the call timed out.
func took(t run.Turn, i int, o *run.Outcome) int64 {
	switch {
	case o == nil:
		return 0
	case o.Kind == run.KindTimeout && o.DurationMS == 0:
		return max(0, t.Entry.Calls[i].Deadline.Sub(t.Time).Round(time.Millisecond).Milliseconds())
	}
	return o.DurationMS
}
