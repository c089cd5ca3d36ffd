package client

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Role is the speaker of a Message.
type Role string

// The roles.
const (
	// RoleTask is the task of a run, as its caller wrote it.
	RoleTask Role = "task"
	// RoleSystem is the system prompt.
	RoleSystem Role = "system"
	// RoleUser is the first user message, if it is more than the task.
	RoleUser Role = "user"
	// RoleAssistant is an answer of the model.
	RoleAssistant Role = "assistant"
	// RoleResult is the outcome of a call.
	RoleResult Role = "result"
	// RoleMail is a message of another run or of a person.
	RoleMail Role = "mail"
	// RoleVerdict is a decision about a turn or about a call: of a supervisor
	// or of a person.
	RoleVerdict Role = "verdict"
	// RoleNote is an event that is no message: a timeout, an interrupt, a
	// cancel message.
	RoleNote Role = "note"
	// RoleEnd is the failure that has ended the run.
	RoleEnd Role = "end"
)

// Message is one message of a run's conversation, as people read it. A model
// that cannot call tools, or that spawns many runs at once, reads the same in
// another form.
type Message struct {
	// Run is the run that has the conversation.
	Run  subjects.Run `json:"-"`
	Seq  uint64       `json:"seq"`
	Time time.Time    `json:"time"`
	Role Role         `json:"role"`
	// Turn is the number of the turn of an answer or a decision, from 1.
	Turn int    `json:"turn,omitzero"`
	Text string `json:"text,omitzero"`
	// Calls are the tool calls of an answer.
	Calls []MessageCall `json:"calls,omitempty"`
	// From is the path of the run that a result comes from, or the writer of
	// mail, or the supervisor or person behind a verdict.
	From string `json:"from,omitzero"`
	// Name is the agent or the tool of a result.
	Name string `json:"name,omitzero"`
	// By is the user that sent the message, as the server has proven it,
	// and for a task the user that submitted it. It is left out if the
	// sender is not known.
	By subjects.By `json:"by,omitzero"`
	// Idle marks mail by which a fork says that it is idle.
	Idle bool `json:"idle,omitzero"`
	// Decision is held, approved, denied, settled or not counted. It is
	// empty for a verdict that has not taken effect.
	Decision EventKind `json:"decision,omitzero"`
	// Failed says that a result is an error, and Kind of which kind.
	Failed bool     `json:"failed,omitzero"`
	Kind   run.Kind `json:"kind,omitzero"`
	Worker string   `json:"worker,omitzero"`
	Model  string   `json:"model,omitzero"`
	// Usage has the tokens of an answer or, for a result, of its run and all
	// runs below that. Calls of a tool use none.
	Usage provider.Usage `json:"usage,omitzero"`
	// DurationMS is the time of a result's run, in milliseconds.
	DurationMS int64 `json:"duration_ms,omitzero"`
	// Retries is the number of failed requests before an answer.
	Retries int `json:"retries,omitzero"`
}

// MessageCall is a tool call in an answer.
type MessageCall struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Paths are the runs that the call makes.
	Paths []subjects.Path `json:"paths,omitempty"`
	// Error is the text of a refusal.
	Error string `json:"error,omitzero"`
}

// Conversations turns the events of a tree into the messages of its runs'
// conversations. The zero value is a tree without events.
type Conversations struct {
	agents map[subjects.Path]subjects.Agent
}

// Messages returns the messages of an event of a stored message: the outcome of
// a run is the end of its own conversation, and a result in that of its caller.
// A live event has none. The events have to come in the order of the tree.
func (c *Conversations) Messages(e Event) []Message {
	if e.Kind == Called {
		if c.agents == nil {
			c.agents = map[subjects.Path]subjects.Agent{}
		}
		c.agents[e.Run.Path] = e.Run.Agent
	}
	all := messages(e)
	for i, m := range all {
		if agent, known := c.agents[m.Run.Path]; known {
			all[i].Run.Agent = agent
		}
	}
	return all
}

func messages(e Event) []Message {
	m := Message{Run: e.Run, Seq: e.Seq, Time: e.Time, Turn: e.Turn, Worker: e.Worker, By: e.Sender}
	switch e.Kind {
	case Called:
		m.Role, m.Text = RoleTask, e.Input.Task
		if e.Input.Context != "" {
			m.Text += "\n\n" + e.Input.Context
		}
		if t := e.Input.Tool; t != nil {
			m.Name, m.Text = t.Name, string(t.Arguments)
		}
		return []Message{m}
	case Answered:
		return append(started(m, e), answer(m, e))
	case BecameIdle:
		all := started(m, e)
		m.Role, m.Text = RoleAssistant, e.Outcome.Result
		if e.Outcome.Status != run.StatusCompleted {
			m.Role, m.Text, m.Failed, m.Kind = RoleNote, e.Outcome.Error, true, e.Outcome.Kind
		}
		m.Model, m.Retries = modelOf(e), e.Entry.Retries
		if a := e.Entry.Answer; a != nil {
			m.Usage = a.Usage
		}
		return append(all, m)
	case ChildEnded:
		return []Message{last(m, e), result(m, e)}
	case TreeEnded:
		return []Message{last(m, e)}
	case MailReceived:
		m.Role, m.From, m.Text, m.Idle = RoleMail, e.Mail.From, e.Mail.Text, e.Mail.Idle
		return []Message{m}
	case Held, Approved, Denied, NotCounted, Settled:
		m.Role, m.From, m.Text, m.Decision = RoleVerdict, e.By, e.Reason, e.Kind
		if e.Kind == Settled {
			m.Text = cmp.Or(e.Settlement.Text, string(e.Settlement.As))
		}
		return []Message{m}
	case TimedOut, Interrupted, Cancelled, CancelSent:
		m.Role, m.Text = RoleNote, string(e.Kind)
		if !e.Sender.IsZero() {
			m.Text += " by " + e.Sender.String()
		}
		if reason := cmp.Or(e.Cause.Text, e.Reason); reason != "" {
			m.Text += ": " + reason
		}
		return []Message{m}
	case Asking, Running, Retrying, RateLimited, Stalled:
	}
	return nil
}

// started returns the prompts that the first entry of a log has.
func started(m Message, e Event) (all []Message) {
	start := e.Entry.Start
	if start == nil {
		return nil
	}
	m.Time, m.Turn, m.Worker = e.State.CalledAt, 0, ""
	if start.System != "" {
		m.Role, m.Text = RoleSystem, start.System
		all = append(all, m)
	}
	if in := e.State.Input; start.User != in.Task && start.User != "" {
		m.Role, m.Text = RoleUser, start.User
		all = append(all, m)
	}
	return all
}

// answer is the answer of a turn that calls tools.
func answer(m Message, e Event) Message {
	a := e.Entry.Answer
	m.Role, m.Text, m.Usage, m.Model, m.Retries = RoleAssistant, a.Content, a.Usage, modelOf(e), e.Entry.Retries
	for i, tc := range a.ToolCalls {
		c := MessageCall{Tool: tc.Name, Arguments: tc.RawArguments()}
		from, _ := e.Entry.CallRange(i)
		for j, call := range e.Entry.CallsOf(i) {
			c.Error = cmp.Or(c.Error, call.Error)
			if call.MakesRun() || call.MakesToolRun() {
				c.Paths = append(c.Paths, e.Run.Path.Child(e.Turn, from+j))
			}
		}
		m.Calls = append(m.Calls, c)
	}
	return m
}

func modelOf(e Event) string {
	if start := e.State.Start(); start != nil {
		return start.Model
	}
	return ""
}

// last is the end of a run in its own conversation.
func last(m Message, e Event) Message {
	o := e.Outcome
	m.Role, m.Text, m.Turn, m.Model = RoleAssistant, o.Result, o.Turns, o.Model
	before := e.State.Turns.Totals().Usage
	m.Usage = provider.Usage{
		InputTokens:  max(0, o.Usage.InputTokens-before.InputTokens),
		OutputTokens: max(0, o.Usage.OutputTokens-before.OutputTokens),
		CachedTokens: max(0, o.Usage.CachedTokens-before.CachedTokens),
	}
	m.DurationMS = o.DurationMS
	if o.Status != run.StatusCompleted {
		m.Role, m.Text, m.Failed, m.Kind = RoleEnd, o.Error, true, o.Kind
	} else if o.Tool != "" {
		m.Role, m.Name = RoleResult, o.Tool
	}
	return m
}

// result is the outcome of a run in the conversation of its caller.
func result(m Message, e Event) Message {
	o := e.Outcome
	above, turn, index, _ := e.Run.Path.Parent()
	m.From, m.Name = e.Run.Path.String(), cmp.Or(o.Tool, e.Run.Agent.String())
	m.Role, m.Text, m.Turn = RoleResult, o.Result, turn
	if o.Status != run.StatusCompleted {
		m.Text, m.Failed, m.Kind = o.Error, true, o.Kind
	}
	if turns := e.Caller.Turns; turn <= len(turns) && index == len(turns[turn-1].Entry.Calls) {
		m.Role = RoleVerdict // of the supervisor
	}
	m.Usage, m.DurationMS = o.Subtree.Usage, o.DurationMS
	m.Run.Path = above
	return m
}
