package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/provider"
)

// EntryKind says what a log message records.
type EntryKind string

// The kinds of log messages.
const (
	EntryTurn  EntryKind = "turn"  // an answer of the model that calls tools
	EntryEnded EntryKind = "ended" // the run was ended by its own cancel message
)

// Entry is one message of a run's log. It records whatever was decided from anything but messages
// (known agents, depth, deadlines), so that nothing is decided again when it is carried out.
type Entry struct {
	Index   int       `json:"index"` // from 1, without a hole
	Kind    EntryKind `json:"kind"`
	Trigger uint64    `json:"trigger"` // stream sequence of the message it was written under
	Seen    uint64    `json:"seen"`    // its writer had read the run's messages up to here
	Worker  string    `json:"worker"`
	Tombs   uint64    `json:"tombs,omitzero"` // the newest tombstone its writer knew: of a turn, when the model was asked

	Start  *Start             `json:"start,omitempty"` // the first entry of a run: what it was started with
	Answer *provider.Response `json:"answer,omitempty"`
	Calls  []Call             `json:"calls,omitempty"` // one for each tool call of Answer, in order

	Sequential bool          `json:"sequential,omitzero"` // the next call waits for the outcome of the one before
	Timeout    time.Duration `json:"timeout_ns,omitzero"` // of each call; 0: what is left of the run's own time
	Timer      time.Time     `json:"timer,omitzero"`      // when calls without an outcome have timed out
	ModelMS    int64         `json:"model_ms,omitzero"`   // what the answer took, in milliseconds
	Retries    int           `json:"retries,omitzero"`    // requests to the model that failed before it came

	End *End `json:"end,omitempty"`
}

// Start is what a run was started with; later turns use it whatever has become of the agent's file.
type Start struct {
	Model       string          `json:"model"` // provider/model
	System      string          `json:"system"`
	User        string          `json:"user"`
	Tools       []provider.Tool `json:"tools,omitempty"`
	Temperature *float64        `json:"temperature,omitzero"`
	MaxTokens   int             `json:"max_tokens,omitzero"`
	SubAgents   []string        `json:"sub_agents,omitempty"`
	MaxDepth    int             `json:"max_depth,omitzero"` // effective: the agent's own within its ancestors'
	Sequential  bool            `json:"sequential,omitzero"`
	Timeout     time.Duration   `json:"timeout_ns,omitzero"`
	Limits      []Scope         `json:"limits,omitempty"` // that the run is in, the outermost first
	Memory      *Memory         `json:"memory,omitempty"` // nil: a success is not remembered
	Retry       *Retry          `json:"retry,omitempty"`  // nil: the model is asked once
}

// Memory says that an agent remembers what it has done.
type Memory struct {
	Path string `json:"path,omitzero"` // the agent's own, "" for that of its name
}

// Call is what was decided about one tool call: a child run with its deadline, or an error at once.
type Call struct {
	Agent    string    `json:"agent,omitzero"`
	Task     string    `json:"-"`
	Context  string    `json:"-"`
	Deadline time.Time `json:"deadline,omitzero"`
	Error    string    `json:"error,omitzero"`
	Kind     Kind      `json:"kind,omitzero"`
}

// Failed reports whether the call was refused when it was decided.
func (c Call) Failed() bool { return c.Error != "" }

// End says why a run was ended from outside itself.
type End struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

// DecodeEntry reads a log message.
func DecodeEntry(b []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return Entry{}, fmt.Errorf("log entry: %w", err)
	}
	switch {
	case e.Index < 1:
		return Entry{}, fmt.Errorf("log entry: index %d", e.Index)
	case e.Kind == EntryTurn && (e.Answer == nil || len(e.Calls) == 0 || len(e.Calls) != len(e.Answer.ToolCalls)):
		return Entry{}, fmt.Errorf("log entry %d: a turn needs an answer and one decision for each of its calls", e.Index)
	case e.Kind == EntryEnded && (e.End == nil || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: an end needs its reason and calls nobody", e.Index)
	case e.Kind != EntryTurn && e.Kind != EntryEnded:
		return Entry{}, fmt.Errorf("log entry %d: kind %q is not known", e.Index, e.Kind)
	case e.Index == 1 && e.Kind == EntryTurn && e.Start == nil:
		return Entry{}, errors.New("log entry 1: the start is missing")
	}
	for i := range e.Calls {
		args := e.Answer.ToolCalls[i].Arguments
		e.Calls[i].Task, e.Calls[i].Context = args["task"], args["context"]
	}
	return e, nil
}
