package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Kind says what happened.
type Kind string

// The kinds of events.
const (
	Called    Kind = "called"    // the run was asked to start
	Asking    Kind = "asking"    // its model is being asked; told live only
	Retrying  Kind = "retrying"  // its model failed, and is asked again after a pause; told live only
	Waiting   Kind = "waiting"   // its model may not be asked yet; told live only
	Answered  Kind = "answered"  // its model called tools
	Rested    Kind = "idle"      // it has answered, and waits for mail
	Mailed    Kind = "mail"      // somebody has written to it
	Replied   Kind = "replied"   // a run below the root ended
	TimedOut  Kind = "timed out" // the run's wait for its calls, or its own time, was over
	Cancelled Kind = "cancelled" // the run was told to end
	Concluded Kind = "concluded" // the root ended: the last event of a tree

	Held        Kind = "held"        // a person is to decide on its turn: its supervisor wants to pause
	Approved    Kind = "approved"    // its turn is carried out: its supervisor, a person or their silence says so
	Denied      Kind = "denied"      // nothing of its turn is carried out
	Interrupted Kind = "interrupted" // a person wants it to stop what it is doing
)

// Event is one thing that happened to a run of a tree.
type Event struct {
	Kind    Kind
	Run     subjects.Run // whom it happened to; for Replied the child
	Seq     uint64       // of the stored message, 0 for what is told live only
	Time    time.Time    // by the server's clock; by this process's for what is told live only
	Worker  string       // who did it, where that is known
	Input   run.Input    // for Called: what the run was asked
	Until   time.Time    // for Called: its deadline, zero if that cannot be read
	Turn    int          // for Asking, Retrying, Waiting, Answered, Rested, TimedOut, Held, Approved and Denied; 0 is the run's own time
	Stop    string       // for Answered and Rested: the model's stop reason
	Calls   []run.Call   // for Answered and Approved: one for each run called, those refused at once too
	Review  *run.Call    // for Answered: of its supervisor, without whose word nothing of the turn is done
	Start   *run.Start   // for the first Answered or Rested of a run: what it was started with
	Tools   int          // for Answered: tool calls, of which one may call several runs
	Outcome run.Outcome  // for Replied and Concluded; for Rested what it has answered
	Mail    run.Mail     // for Mailed
	Reason  string       // for Cancelled, Held, Approved and Denied; for Retrying the category of the provider's error, for Waiting the limit, for TimedOut that it was interrupted
	By      string       // for Approved and Denied: whose word it was, "" for nobody's; for Held the supervisor

	Attempt, Attempts int       // for Retrying: the next attempt at the turn, and how many there may be
	Next              time.Time // for Retrying: when that is; for Waiting: not before, zero if nobody knows
}

// event reads what a stored message tells; ok is false for one that tells nothing.
func (c *Client) event(ctx context.Context, m bus.Stored) (e Event, ok bool, err error) {
	at, err := c.conn.Space().Parse(m.Subject)
	if err != nil {
		return Event{}, false, nil //nolint:nilerr // not a message of a run
	}
	body, err := c.conn.Load(ctx, m)
	if err != nil {
		return Event{}, false, fmt.Errorf("%s: %w", m.Subject, err)
	}
	e = Event{Run: at.Run, Seq: m.Seq, Time: m.Time, Turn: at.Turn}
	switch at.Kind {
	case subjects.Call:
		e.Kind = Called
		_ = json.Unmarshal(body, &e.Input) // one that cannot be read counts as well
		e.Until, _ = subjects.ParseDeadline(m.Header.Get(subjects.HeaderDeadline))
		return e, true, nil
	case subjects.Log:
		return e.log(body)
	case subjects.Reply:
		return e.reply(at, body)
	case subjects.Mail:
		e.Kind = Mailed
		e.Mail, err = run.DecodeMail(body)
		e.Mail.Seq = m.Seq
		return e, err == nil, err
	case subjects.Timer:
		e.Kind = TimedOut
		return e, true, nil
	case subjects.Cancel:
		var end run.End
		_ = json.Unmarshal(body, &end) // one without a readable reason counts as well
		e.Kind, e.Reason = Cancelled, end.Text
		return e, true, nil
	case subjects.Result:
		e.Kind = Concluded
		e.Outcome, err = run.DecodeOutcome(body)
		e.Worker = e.Outcome.Worker
		return e, err == nil, err
	case subjects.Interrupt:
		e.Kind = Interrupted
		return e, true, nil
	case subjects.Submission, subjects.Part, subjects.Other, subjects.Approve: // what an approval comes to, decisions tells
	}
	return Event{}, false, nil
}

// log tells of a turn. What else a log may hold ends the run, which its outcome tells better.
func (e Event) log(body []byte) (Event, bool, error) {
	entry, err := run.DecodeEntry(body)
	if err != nil {
		return Event{}, false, err
	}
	e.Turn, e.Worker, e.Start = entry.Index, entry.Worker, entry.Start
	switch entry.Kind {
	case run.EntryTurn:
		e.Kind, e.Calls, e.Review, e.Tools, e.Stop = Answered, entry.Calls, entry.Review, entry.ToolCalls(), entry.Answer.StopReason
		return e, true, nil
	case run.EntryIdle:
		e.Kind, e.Stop = Rested, entry.Answer.StopReason
		e.Outcome = run.Outcome{Status: run.StatusCompleted, Result: entry.Answer.Content, StopReason: e.Stop}
		if entry.End != nil {
			e.Outcome = entry.End.Outcome()
		}
		return e, true, nil
	case run.EntryFinal, run.EntryEnded:
	}
	return Event{}, false, nil
}

// reply tells of a child's end, at the slot of its parent.
func (e Event) reply(at subjects.Address, body []byte) (Event, bool, error) {
	o, err := run.DecodeOutcome(body)
	if err != nil {
		return Event{}, false, err
	}
	agent, err := subjects.ParseAgent(o.Agent)
	if err != nil {
		return Event{}, false, err
	}
	e.Kind, e.Outcome, e.Worker, e.Turn = Replied, o, o.Worker, 0
	e.Run = at.Run.Space.Run(agent, at.Run.Tree, at.Run.Path.Child(at.Turn, at.Index))
	return e, true, nil
}

// partEvent reads what was told live.
func (c *Client) partEvent(m bus.Stored) (Event, bool) {
	at, err := c.conn.Space().Parse(m.Subject)
	if err != nil || at.Kind != subjects.Part {
		return Event{}, false
	}
	var p run.Part
	if json.Unmarshal(m.Body, &p) != nil || p.Again || !slices.Contains([]Kind{Asking, Retrying, Waiting}, Kind(p.Event)) {
		return Event{}, false
	}
	return Event{
		Kind: Kind(p.Event), Run: at.Run, Time: time.Now(), Worker: p.Worker, Turn: p.Turn,
		Reason: p.Reason, Attempt: p.Attempt, Attempts: p.Attempts, Next: p.Next,
	}, true
}
