package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// EntryKind is the kind of a log message.
type EntryKind string

// The kinds of log messages.
const (
	// EntryTurn is an answer of the model that calls tools.
	EntryTurn EntryKind = "turn"
	// EntryIdle ends a turn after which the run is idle: an answer, a
	// failure of a fork's model, or an interrupt. Mail that the run does
	// not know of makes it ready at once.
	EntryIdle EntryKind = "idle"
	// EntryFinal is the last answer of a run with forks. They are cancelled
	// before the answer is published.
	EntryFinal EntryKind = "final"
	// EntryEnded is the end of a run by its own cancel message.
	EntryEnded EntryKind = "ended"
	// EntryStarted says that a worker begins to carry out a tool with the
	// effect ToolOnce.
	EntryStarted EntryKind = "started"
	// EntryHeld says that a tool may have taken effect, or asks for input,
	// and that its run waits for a person.
	EntryHeld EntryKind = "held"
	// EntryTask says that the tool's server goes on with the call as a
	// task, and that its run waits for the task.
	EntryTask EntryKind = "task"
)

// isTurn reports whether the entry is a turn of a model.
func (k EntryKind) isTurn() bool { return k == EntryTurn || k == EntryIdle || k == EntryFinal }

func (k EntryKind) known() bool {
	return k.isTurn() || k == EntryEnded || k == EntryStarted || k == EntryHeld || k == EntryTask
}

// Entry is one message of a run's log. It records every decision that depends
// on more than messages (known agents, depth, deadlines). So nothing is decided
// again when the entry is carried out.
type Entry struct {
	// Index counts the entries of the log from 1, without a hole.
	Index int       `json:"index"`
	Kind  EntryKind `json:"kind"`
	// Trigger is the sequence of the message that the entry was written
	// under.
	Trigger uint64 `json:"trigger"`
	// Seen is the last sequence of the run that the worker had read.
	Seen uint64 `json:"seen"`
	// Worker is the name of the worker that wrote the entry.
	Worker string `json:"worker"`
	// CancelsSeen is the sequence of the newest cancel message that the
	// worker knew. For an answer it is the newest one when the model was
	// asked.
	CancelsSeen uint64 `json:"tombs,omitzero"`

	// Start has the settings of the run, in its first entry alone.
	Start *Start `json:"start,omitempty"`
	// Answer is the model's answer, nil in an entry that is no turn.
	Answer *provider.Response `json:"answer,omitempty"`
	// Calls are the decisions about the answer's tool calls, in their
	// order.
	Calls []Call `json:"calls,omitempty"`
	// Spread has the number of decisions for each tool call. Without it
	// each tool call has one.
	Spread []int `json:"spread,omitempty"`

	// Review is the call of the supervisor, which answers before the turn
	// takes effect. It is nil for a turn that is not reviewed: the run is
	// unsupervised, or all calls of the turn were refused.
	Review *Call `json:"review,omitempty"`
	// Approve says why a person has to approve the turn before it takes
	// effect: it uses a tool that the agent's file names for that. It is
	// empty for any other turn.
	Approve string `json:"approve,omitzero"`
	// Until is the run's deadline, for a turn that is deferred, and the end
	// of the wait for an EntryHeld or an EntryTask. No wait for a person or
	// a task lasts longer.
	Until time.Time `json:"until,omitzero"`
	// Cut says that an argument was too long for the supervisor, which was
	// shown its beginning.
	Cut bool `json:"cut,omitzero"`
	// Sequential says that each call waits for the outcome of the call
	// before it.
	Sequential bool `json:"sequential,omitzero"`
	// Timeout bounds each call that the run waits for. 0 leaves it the rest
	// of the run's own time.
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// Timer is the time at which calls without an outcome time out. It is
	// zero if the run waits for none. For a turn with a review it is the
	// review's deadline.
	Timer time.Time `json:"timer,omitzero"`
	// ModelMS is the time of the requests to the model, without the pauses
	// between them, in milliseconds.
	ModelMS int64 `json:"model_ms,omitzero"`
	// Retries is the number of failed requests to the model that were made
	// again.
	Retries int `json:"retries,omitzero"`
	// Refused are the outcomes that the worker refused up to Seen, and that
	// no earlier entry has (State.Refused). Whether an outcome up to Seen
	// counts is decided by it, for every reader.
	Refused []uint64 `json:"refused,omitempty"`

	// End says why the run ended, why there is no answer in an EntryIdle or
	// EntryFinal, why the answer of an EntryIdle is a failure, or why the
	// run of an EntryHeld waits.
	End *End `json:"end,omitempty"`

	// Attempt is the attempt that an EntryStarted begins.
	Attempt *Attempt `json:"attempt,omitempty"`
	// Form is what the tool of an EntryHeld asks. It is nil if the tool may
	// have taken effect.
	Form *Form `json:"form,omitempty"`
	// Task is the task that the run of an EntryTask waits for.
	Task *ServerTask `json:"task,omitempty"`
}

// Start has the settings that a run was started with. Its later turns use them
// even if the agent's file has changed.
type Start struct {
	// Model is the provider's name, a slash and the model's name.
	Model string `json:"model"`
	// System is the system prompt.
	System string `json:"system"`
	// User is the first user message.
	User string `json:"user"`
	// Tools are the tools that the model is offered.
	Tools []provider.Tool `json:"tools,omitempty"`
	// Served are the tools in Tools that tool runs carry out.
	Served []ServedTool `json:"served,omitempty"`
	// Cwd is the working directory of a spawned run, below the agent's own.
	Cwd string `json:"cwd,omitzero"`
	// AllowedHosts are the hosts that url_fetch may ask: those of the
	// agent's file or, without any there, those of the caller. An empty
	// list allows every public host.
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	// Approve names the tools that a person approves before they are used.
	Approve []string `json:"approve,omitempty"`
	// Approvers are the users of which a decision about a held turn, or
	// about a held call of a tool, counts. Without any, each one counts.
	Approvers subjects.Approvers `json:"approvers,omitempty"`
	// Slash names the tools that the model uses by writing lines of text.
	Slash       []string `json:"slash,omitempty"`
	Temperature *float64 `json:"temperature,omitzero"`
	// MaxTokens bounds an answer. 0 is the provider's default.
	MaxTokens int `json:"max_tokens,omitzero"`
	// FailTruncated says that an answer that was cut fails the run.
	FailTruncated bool `json:"fail_truncated,omitzero"`
	// SubAgents names the agents that the run may call.
	SubAgents []string `json:"sub_agents,omitempty"`
	// Definitions are the definitions of the tools in Served. Tools holds
	// only those that the run may use.
	Definitions []provider.Tool `json:"-"`
	// Delegates names the tools of the agent's styles. Tools holds only the
	// ones that the run may use.
	Delegates []string `json:"-"`
	// MaxDepth bounds the depth of the tree, from its root.
	MaxDepth int `json:"max_depth,omitzero"`
	// Sequential says that each call of a turn waits for the outcome of the
	// call before it.
	Sequential bool `json:"sequential,omitzero"`
	// Timeout bounds each call that the run waits for. 0 leaves a call the
	// rest of the run's own time.
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// Scopes are the scopes that the run is in, the outermost first.
	Scopes []subjects.Scope `json:"limits,omitempty"`
	// Policy is the run's policy within the policies of all runs above it.
	Policy Policy `json:"policy,omitzero"`
	// Supervision is the run's supervision within the supervision of all
	// runs above it.
	Supervision Supervision `json:"supervision,omitzero"`
	// Memory says where a success is remembered. Nil remembers nothing.
	Memory *Memory `json:"memory,omitempty"`
	// Retry says when a failed request is made again. Nil makes none again.
	Retry *Retry `json:"retry,omitempty"`
	// MaxBatch bounds the tasks of one call of spawn_agents.
	MaxBatch int `json:"max_batch,omitzero"`
	// Turns bounds the turns of a spawned run (Spawned.Turns).
	Turns int `json:"turns,omitzero"`
	// ChildTurns bounds the turns of the runs that this run spawns.
	ChildTurns int `json:"child_turns,omitzero"`
}

// Memory says where an agent remembers its successes.
type Memory struct {
	// Path is the file. Empty is the file of the agent's name. A memory on
	// the bus ignores it.
	Path string `json:"path,omitzero"`
}

// Call is the decision about a tool call, or about one of its tasks: a child
// run with a deadline, a message, or a refusal.
type Call struct {
	Op Op `json:"op,omitzero"`
	// Agent is the agent of the run that the call makes, writes to or
	// kills.
	Agent string `json:"agent,omitzero"`
	// Task is the task of the child, or the text of the message. Task,
	// Context and Cwd are not stored: DecodeEntry takes them from the tool
	// call.
	Task    string `json:"-"`
	Context string `json:"-"`
	// Cwd is the working directory of a spawned run.
	Cwd string `json:"-"`
	// Tool is the tool's name at the agent or toolset that serves it, for
	// an OpTool. It is not stored if it is the name in the tool call.
	Tool string `json:"tool,omitzero"`
	// Effect is the effect of the tool, for an OpTool.
	Effect    ToolEffect `json:"effect,omitzero"`
	OnUnknown OnUnknown  `json:"on_unknown,omitzero"`
	// Arguments is the JSON object of the tool's arguments. It is not
	// stored: DecodeEntry takes it from the tool call.
	Arguments json.RawMessage `json:"-"`
	// Changed says that Arguments are those of a person who approved of the
	// turn, and not the model's.
	Changed bool `json:"-"`
	// Spawn marks a spawned run.
	Spawn bool `json:"spawn,omitzero"`
	// AdHoc marks a spawned run without a definition of its own.
	AdHoc bool `json:"ad_hoc,omitzero"`
	// Slash marks a call that the model made by a line of text.
	Slash bool `json:"slash,omitzero"`
	// To is the path of the run that the call forks, writes to or kills. It
	// is zero for any other call.
	To subjects.Path `json:"to,omitzero"`
	// From has the paths of the runs that a wait needs mail from. Without
	// any, the mail of every sender will do.
	From []subjects.Path `json:"from,omitzero"`
	// Dead has the paths in From of runs that had ended when the call was
	// decided.
	Dead []subjects.Path `json:"dead,omitzero"`
	// Busy has the paths in From of runs that were at work when the call
	// was decided, though their last notices had said that they were idle.
	Busy []subjects.Path `json:"awake,omitzero"`
	// Deadline is the deadline of the child, or the end of the wait.
	Deadline time.Time `json:"deadline,omitzero"`
	// Error is the text of a refusal, empty if the call was not refused.
	Error string `json:"error,omitzero"`
	// Kind is the kind of a refusal.
	Kind Kind `json:"kind,omitzero"`
	// Patience bounds a wait, and the time of a tool. 0 bounds a wait by
	// Timeout, as any other call, and a tool by the run's own time alone.
	Patience time.Duration `json:"patience_ns,omitzero"`
}

// Op is the operation of a call.
type Op string

// The operations. A turn waits for OpCall, OpTool and OpWait alone.
const (
	// OpCall starts a child run. The child's outcome is the result.
	OpCall Op = ""
	// OpTool starts a tool run. Its outcome is the result.
	OpTool Op = "tool"
	// OpFork starts a run that works beside this one.
	OpFork Op = "fork"
	// OpSend writes to another run.
	OpSend Op = "send"
	// OpMail takes the mail that there is.
	OpMail Op = "check_mail"
	// OpWait takes mail as soon as there is some.
	OpWait Op = "wait"
	// OpKill ends a run below this one.
	OpKill Op = "kill"

	// OpReview starts the supervisor's run. Its outcome is the verdict. No
	// model can call it.
	OpReview Op = "review"
)

// Awaited reports whether the turn waits for the call.
func (c Call) Awaited() bool { return c.HasReply() || !c.Failed() && c.Op == OpWait }

// HasReply reports whether the result of the call is the outcome of a run that
// the turn waits for: of a child, or of a tool run.
func (c Call) HasReply() bool { return !c.Failed() && (c.Op == OpCall || c.Op == OpTool) }

// writes reports whether the call may change something that another call of its
// turn reads.
func (c Call) writes() bool { return c.Op == OpTool && c.Effect != ToolReads }

// MakesRun reports whether the call makes a run with a model.
func (c Call) MakesRun() bool {
	return !c.Failed() && (c.Op == OpCall || c.Op == OpFork || c.Op == OpReview)
}

// MakesToolRun reports whether the call makes a tool run.
func (c Call) MakesToolRun() bool { return !c.Failed() && c.Op == OpTool }

// Failed reports whether the call was refused when it was decided.
func (c Call) Failed() bool { return c.Error != "" }

// End says why a run failed. It is the body of a cancel message.
type End struct {
	Kind   Kind   `json:"kind"`
	Reason Reason `json:"reason,omitzero"`
	// Text is for people and models.
	Text string `json:"text"`
	// Category is the category of a provider's error, or CategoryConfig.
	Category string `json:"category,omitzero"`
}

// Outcome is the failed outcome of a run that ended so.
func (e End) Outcome() Outcome {
	return Outcome{Status: StatusFailed, Kind: e.Kind, Reason: e.Reason, Error: e.Text, Category: e.Category}
}

// Schedule returns the calls with a deadline for each that makes a run or is
// awaited, none later than limit allows. Last is the latest deadline of an
// awaited call, zero if there is none. A fork gets all the time that limit
// allows. The time of a call that waits for calls before it begins when they
// have used all of theirs. The entry itself does not change.
func (e Entry) Schedule(now time.Time, limit func(call int) time.Time) (calls []Call, last time.Time) {
	calls = slices.Clone(e.Calls)
	var begin, end time.Duration // of the calls that run side by side
	var before *Call
	for i := range calls {
		c := &calls[i]
		if c.Op == OpFork && !c.Failed() {
			c.Deadline = limit(i)
			continue
		}
		if !c.Awaited() {
			continue
		}
		if before != nil && !e.sideBySide(before, c) {
			begin = end
		}
		before = c
		c.Deadline = limit(i)
		if allowed := e.allowed(c); allowed == 0 || begin == unlimited {
			end = unlimited
		} else {
			end = max(end, begin+allowed)
			if by := now.Add(begin + allowed); by.Before(c.Deadline) {
				c.Deadline = by
			}
		}
		if c.Deadline.After(last) {
			last = c.Deadline
		}
	}
	return calls, last
}

// unlimited is a time without an end of its own.
const unlimited time.Duration = 1<<63 - 1

// allowed returns the time that an awaited call has. 0 leaves it the rest of
// the run's own time. A tool that a person may have to settle has that too: its
// own time bounds the call alone (ToolInput.Timeout), and not the person.
func (e Entry) allowed(c *Call) time.Duration {
	if c.OnUnknown == UnknownAsk {
		return 0
	}
	if c.Patience > 0 || c.Op == OpTool {
		return c.Patience
	}
	return e.Timeout
}

// sideBySide reports whether two calls of the turn may run at the same time.
func (e Entry) sideBySide(a, b *Call) bool { return !e.Sequential && !a.writes() && !b.writes() }

// Ordered reports whether a call of the turn has to wait for another one.
func (e Entry) Ordered() bool {
	return e.Sequential || slices.ContainsFunc(e.Calls, Call.writes)
}

// Deferred reports whether a supervisor or a person decides on the turn before
// it takes effect.
func (e Entry) Deferred() bool { return e.Review != nil || e.Approve != "" }

// Defer returns the calls with all the time until limit, for a turn that is
// deferred. Schedule shortens it when the turn is carried out. The entry
// itself does not change.
func (e Entry) Defer(limit time.Time) []Call {
	calls := slices.Clone(e.Calls)
	for i, c := range calls {
		if c.MakesRun() || c.Awaited() {
			calls[i].Deadline = limit
		}
	}
	return calls
}

// shifted returns the entry with its times moved by a duration. The entry
// itself does not change.
func (e Entry) shifted(by time.Duration) Entry {
	if by == 0 {
		return e
	}
	move := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	move(&e.Until)
	move(&e.Timer)
	e.Calls = slices.Clone(e.Calls)
	for i := range e.Calls {
		move(&e.Calls[i].Deadline)
	}
	if e.Review != nil {
		e.Review = new(*e.Review)
		move(&e.Review.Deadline)
	}
	return e
}

// DecodeEntry reads a log message from its body.
func DecodeEntry(b []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(b, &e); err != nil {
		return Entry{}, fmt.Errorf("log entry: %w", err)
	}
	switch {
	case e.Index < 1:
		return Entry{}, fmt.Errorf("log entry: index must be at least 1, got %d", e.Index)
	case e.Kind == EntryTurn && (e.Answer == nil || len(e.Calls) == 0 || !e.spreads()):
		return Entry{}, fmt.Errorf("log entry %d: a turn needs an answer and one decision for each of its calls",
			e.Index)
	case e.Review != nil && (e.Kind != EntryTurn || e.Review.Op != OpReview):
		return Entry{}, fmt.Errorf("log entry %d: a review needs a turn and the op %q", e.Index, OpReview)
	case e.Kind == EntryStarted && (e.Attempt == nil || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: a start of a tool needs its attempt and has no calls", e.Index)
	case e.Kind == EntryHeld && (e.End == nil || e.Until.IsZero() || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: a held tool needs its reason and an end, and has no calls", e.Index)
	case e.Form != nil && (e.Kind != EntryHeld || e.Form.ID == ""):
		return Entry{}, fmt.Errorf("log entry %d: a form needs a held tool and an id", e.Index)
	case e.Kind == EntryTask && (e.Task == nil || e.Task.ID == "" || e.Until.IsZero() || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: a task needs its id and an end, and has no calls", e.Index)
	case e.Kind == EntryEnded && (e.End == nil || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: an end needs its reason and has no calls", e.Index)
	case (e.Kind == EntryIdle || e.Kind == EntryFinal) && (e.Answer == nil || len(e.Calls) > 0):
		return Entry{}, fmt.Errorf("log entry %d: kind %q needs an answer and no calls", e.Index, e.Kind)
	case !e.Kind.known():
		return Entry{}, fmt.Errorf("log entry %d: kind %q is not known", e.Index, e.Kind)
	case e.Index == 1 && e.Kind.isTurn() && e.Start == nil:
		return Entry{}, errors.New("log entry 1: the start is missing")
	}
	if e.Kind == EntryTurn {
		for i, tc := range e.Answer.ToolCalls {
			fill(e.CallsOf(i), tc)
		}
	}
	return e, nil
}

// Counts reports whether the outcome with a sequence counts. The entry is the
// first one of which the writer had read that outcome: the first one with a
// Seen of seq or more. Known is false if Refused is full, and does not have the
// outcome: then the entry does not say.
func (e Entry) Counts(seq uint64) (counts, known bool) {
	if slices.Contains(e.Refused, seq) {
		return false, true
	}
	return true, len(e.Refused) < MaxRefused
}

// Event returns the event that the entry is to the fold of its run.
func (e Entry) Event(m Meta) Event {
	switch e.Kind {
	case EntryEnded:
		return Ended{m, e}
	case EntryIdle, EntryFinal:
		return AnsweredWithoutCalls{m, e}
	case EntryStarted:
		return ToolStarted{m, e}
	case EntryHeld:
		return ToolHeld{m, e}
	case EntryTask:
		return TaskMade{m, e}
	case EntryTurn:
	}
	return Answered{m, e}
}

// spreads reports whether the decisions of a turn match its tool calls.
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

// HasEffect reports whether the turn has a call that was not refused.
func (e Entry) HasEffect() bool {
	return slices.ContainsFunc(e.Calls, func(c Call) bool { return !c.Failed() })
}

// CallRange returns the range in Calls of the decisions of the i-th tool call.
func (e Entry) CallRange(i int) (from, to int) {
	if e.Spread == nil {
		return i, i + 1
	}
	for _, n := range e.Spread[:i] {
		from += n
	}
	return from, from + e.Spread[i]
}

// CallsOf returns the decisions of the i-th tool call.
func (e Entry) CallsOf(i int) []Call {
	from, to := e.CallRange(i)
	return e.Calls[from:to]
}

// fill takes the tasks of calls from the arguments of their tool call.
func fill(calls []Call, tc provider.ToolCall) {
	switch calls[0].Op {
	case OpFork:
		calls[0].Task = tc.Arguments["prompt"]
		if strings.TrimSpace(calls[0].Task) == "" {
			calls[0].Task = ""
		}
		return
	case OpSend:
		calls[0].Task = tc.Arguments["message"]
		return
	case OpTool:
		calls[0].Tool = cmp.Or(calls[0].Tool, tc.Name)
		calls[0].Arguments = tc.RawArguments()
		return
	case OpCall, OpMail, OpWait, OpKill, OpReview:
	}
	if !calls[0].Spawn {
		calls[0].Task, calls[0].Context = tc.Arguments["task"], tc.Arguments["context"]
		return
	}
	tasks, err := ParseTasks(tc)
	if err != nil || len(tasks) != len(calls) {
		return // no worker decides so
	}
	for i, t := range tasks {
		calls[i].Task = t.Task
		calls[i].Context = t.Context
		calls[i].Cwd = t.Cwd
	}
}
