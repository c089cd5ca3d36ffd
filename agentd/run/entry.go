package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// EntryKind says what a log message records.
type EntryKind string

// The kinds of log messages.
const (
	// an answer of the model that calls tools
	EntryTurn EntryKind = "turn"
	// its answer, after which the run waits for mail
	EntryIdle EntryKind = "idle"
	// its last answer, of a run whose forks are to be cancelled before it
	// is told
	EntryFinal EntryKind = "final"
	// the run was ended by its own cancel message
	EntryEnded EntryKind = "ended"
)

// Entry is one message of a run's log. It records whatever was decided from
// anything but messages (known agents, depth, deadlines), so that nothing is
// decided again when it is carried out.
type Entry struct {
	Index int       `json:"index"` // from 1, without a hole
	Kind  EntryKind `json:"kind"`
	// stream sequence of the message it was written under
	Trigger uint64 `json:"trigger"`
	// its writer had read the run's messages up to here
	Seen   uint64 `json:"seen"`
	Worker string `json:"worker"`
	// the newest tombstone its writer knew: of a turn, when the model was
	// asked
	CancelsSeen uint64 `json:"tombs,omitzero"`

	// the first entry of a run: what it was started with
	Start  *Start             `json:"start,omitempty"`
	Answer *provider.Response `json:"answer,omitempty"`
	// in the order of Answer's tool calls
	Calls []Call `json:"calls,omitempty"`
	// how many of Calls each tool call stands for; absent: one each
	Spread []int `json:"spread,omitempty"`

	// of its supervisor, which answers before any of Calls is carried out
	Review *Call `json:"review,omitempty"`
	// the deadline of a run that is reviewed: nobody is waited for beyond
	// it
	Until time.Time `json:"until,omitzero"`
	// an argument is too long for its supervisor, which is shown the
	// beginning
	Cut bool `json:"cut,omitzero"`
	// the next call waits for the outcome of the one before
	Sequential bool `json:"sequential,omitzero"`
	// of each call; 0: what is left of the run's own time
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// when calls without an outcome have timed out
	Timer time.Time `json:"timer,omitzero"`
	// what the answer took, in milliseconds
	ModelMS int64 `json:"model_ms,omitzero"`
	// requests to the model that failed before it came
	Retries int `json:"retries,omitzero"`

	// of an answer: there is none, and why
	End *End `json:"end,omitempty"`
}

// Start is what a run was started with; later turns use it whatever has become
// of the agent's file.
type Start struct {
	Model  string          `json:"model"` // provider/model
	System string          `json:"system"`
	User   string          `json:"user"`
	Tools  []provider.Tool `json:"tools,omitempty"`
	// the tools that its model uses by writing lines of text
	Slash       []string `json:"slash,omitempty"`
	Temperature *float64 `json:"temperature,omitzero"`
	MaxTokens   int      `json:"max_tokens,omitzero"`
	SubAgents   []string `json:"sub_agents,omitempty"`
	// the tools of its styles; Tools are those of them that it may use
	Delegates []string `json:"-"`
	// effective: the agent's own within its ancestors'
	MaxDepth   int           `json:"max_depth,omitzero"`
	Sequential bool          `json:"sequential,omitzero"`
	Timeout    time.Duration `json:"timeout_ns,omitzero"`
	// Scopes are the scopes that the run is in, the outermost first.
	Scopes []subjects.Scope `json:"limits,omitempty"`
	// its own and that of all above it together
	Policy      Policy      `json:"policy,omitzero"`
	Supervision Supervision `json:"supervision,omitzero"` // the same
	// nil: a success is not remembered
	Memory *Memory `json:"memory,omitempty"`
	// nil: the model is asked once
	Retry *Retry `json:"retry,omitempty"`
	// tasks of one spawn_agents
	MaxBatch int `json:"max_batch,omitzero"`
	Turns    int `json:"turns,omitzero"` // as in Spawned
	// of those that it spawns
	ChildTurns int `json:"child_turns,omitzero"`
}

// Memory says that an agent remembers what it has done.
type Memory struct {
	// the agent's own, "" for that of its name
	Path string `json:"path,omitzero"`
}

// Call is what was decided about a tool call, or about one of the tasks in it:
// a child run with its deadline, or an error at once.
type Call struct {
	Op      Op     `json:"op,omitzero"`
	Agent   string `json:"agent,omitzero"`
	Task    string `json:"-"` // or what is written
	Context string `json:"-"`
	Cwd     string `json:"-"`
	Spawn   bool   `json:"spawn,omitzero"`  // it is a spawned run
	AdHoc   bool   `json:"ad_hoc,omitzero"` // of nobody's definition
	Slash   bool   `json:"slash,omitzero"`  // it was a line of text
	// the path of the run that is made by a fork, written to or killed;
	// Agent is its agent
	To subjects.Path `json:"to,omitzero"`
	// the paths of those whose mail is waited for; none: anybody's
	From []subjects.Path `json:"from,omitzero"`
	Dead []subjects.Path `json:"dead,omitzero"` // those of them that had ended
	// those of them that were at work though they had told that they were
	// idle
	Busy     []subjects.Path `json:"awake,omitzero"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Error    string          `json:"error,omitzero"`
	Kind     Kind            `json:"kind,omitzero"`

	// of a wait; 0: as for any call
	Patience time.Duration `json:"patience_ns,omitzero"`
}

// Op says what a call does.
type Op string

// What a call may do. Only the first and OpWait are waited for.
const (
	// makes a run, whose outcome is the result
	OpCall Op = ""
	// makes a run that goes on beside this one
	OpFork Op = "fork"
	OpSend Op = "send"       // writes to another run
	OpMail Op = "check_mail" // takes what others have written
	OpWait Op = "wait"       // takes it when it is there
	OpKill Op = "kill"       // ends a run below this one

	// not of the model's: makes the supervisor's run, whose outcome is the
	// verdict
	OpReview Op = "review"
)

// Awaited reports whether the turn waits for the call.
func (c Call) Awaited() bool { return !c.Failed() && (c.Op == OpCall || c.Op == OpWait) }

// MakesRun reports whether the call makes a run.
func (c Call) MakesRun() bool {
	return !c.Failed() && (c.Op == OpCall || c.Op == OpFork || c.Op == OpReview)
}

// Failed reports whether the call was refused when it was decided.
func (c Call) Failed() bool { return c.Error != "" }

// End says why a run was ended from outside itself.
type End struct {
	Kind     Kind   `json:"kind"`
	Reason   Reason `json:"reason,omitzero"`
	Text     string `json:"text"`
	Category string `json:"category,omitzero"` // as in Outcome
}

// Outcome is the failed outcome of a run that was ended so.
func (e End) Outcome() Outcome {
	return Outcome{Status: StatusFailed, Kind: e.Kind, Reason: e.Reason, Error: e.Text, Category: e.Category}
}

// Schedule sets the deadline of each call that is made or waits, none later
// than limit says for it, and returns the last of those that are waited for,
// zero if none is. A fork may take as long as it may.
func (e Entry) Schedule(now time.Time, limit func(call int) time.Time) (last time.Time) {
	due := time.Duration(0)
	for i, c := range e.Calls {
		allowed := e.Timeout
		switch {
		case c.Op == OpFork && !c.Failed():
			e.Calls[i].Deadline = limit(i)
			continue
		case !c.Awaited():
			continue
		case c.Op == OpWait && c.Patience > 0:
			allowed = c.Patience
		}
		if due == 0 || e.Sequential {
			due += allowed
		}
		at := limit(i)
		if by := now.Add(due); allowed > 0 && by.Before(at) {
			at = by
		}
		e.Calls[i].Deadline = at
		if at.After(last) {
			last = at
		}
	}
	return last
}

// Defer gives each call that is made or waits all the time there is, until it
// may be made.
func (e Entry) Defer(limit time.Time) {
	for i, c := range e.Calls {
		if c.MakesRun() || c.Awaited() {
			e.Calls[i].Deadline = limit
		}
	}
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
	case e.Kind == EntryTurn && (e.Answer == nil || len(e.Calls) == 0 || !e.spreads()):
		return Entry{}, fmt.Errorf(
			"log entry %d: a turn needs an answer and one decision for each of its calls",
			e.Index,
		)
	case e.Review != nil && (e.Kind != EntryTurn || e.Review.Op != OpReview):
		return Entry{}, fmt.Errorf("log entry %d: nothing to review", e.Index)
	case e.Kind == EntryEnded && (e.End == nil || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: an end needs its reason and calls nobody", e.Index)
	case (e.Kind == EntryIdle || e.Kind == EntryFinal) && (e.Answer == nil || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: it needs an answer, which calls nobody", e.Index)
	case e.Kind != EntryTurn && e.Kind != EntryIdle && e.Kind != EntryFinal && e.Kind != EntryEnded:
		return Entry{}, fmt.Errorf("log entry %d: kind %q is not known", e.Index, e.Kind)
	case e.Index == 1 && e.Kind != EntryEnded && e.Start == nil:
		return Entry{}, errors.New("log entry 1: the start is missing")
	}
	if e.Kind == EntryTurn {
		for i, tc := range e.Answer.ToolCalls {
			fill(e.CallsOf(i), tc)
		}
	}
	return e, nil
}

// Event is what an entry says to the fold of its run.
func (e Entry) Event(m Meta) Event {
	switch e.Kind {
	case EntryEnded:
		return Ended{m, e}
	case EntryIdle, EntryFinal:
		return AnsweredWithoutCalls{m, e}
	case EntryTurn:
	}
	return Answered{m, e}
}

// spreads reports whether each tool call of a turn has its decisions.
func (e Entry) spreads() bool {
	if e.Spread == nil {
		return len(e.Calls) == len(e.Answer.ToolCalls)
	}
	sum := 0
	for _, n := range e.Spread {
		if n < 1 || n > len(e.Calls) {
			return false
		}
		sum += n
	}
	return sum == len(e.Calls) && len(e.Spread) == len(e.Answer.ToolCalls)
}

// ToolCalls counts the tool calls of a turn.
func (e Entry) ToolCalls() int {
	if e.Spread != nil {
		return len(e.Spread)
	}
	return len(e.Calls)
}

// HasEffect reports whether a turn does anything: not all of its calls were refused.
func (e Entry) HasEffect() bool {
	return slices.ContainsFunc(e.Calls, func(c Call) bool { return !c.Failed() })
}

// CallRange is where the decisions of a turn's i-th tool call are in Calls.
func (e Entry) CallRange(i int) (from, to int) {
	if e.Spread == nil {
		return i, i + 1
	}
	for _, n := range e.Spread[:i] {
		from += n
	}
	return from, from + e.Spread[i]
}

// CallsOf are the decisions of a turn's i-th tool call.
func (e Entry) CallsOf(i int) []Call {
	from, to := e.CallRange(i)
	return e.Calls[from:to]
}

// fill takes what calls are asked from the arguments of their tool call.
func fill(calls []Call, tc provider.ToolCall) {
	switch calls[0].Op {
	case OpFork:
		calls[0].Task = tc.Arguments["prompt"]
		if strings.TrimSpace(calls[0].Task) == "" { // as good as none
			calls[0].Task = ""
		}
		return
	case OpSend:
		calls[0].Task = tc.Arguments["message"]
		return
	case OpCall, OpMail, OpWait, OpKill, OpReview:
	}
	if !calls[0].Spawn {
		calls[0].Task, calls[0].Context = tc.Arguments["task"], tc.Arguments["context"]
		return
	}
	tasks, err := ParseTasks(tc)
	// not what this program has decided on
	if err != nil || len(tasks) != len(calls) {
		return
	}
	for i, t := range tasks {
		calls[i].Task, calls[i].Context, calls[i].Cwd = t.Task, t.Context, t.Cwd
	}
}
