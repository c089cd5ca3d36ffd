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

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	Called EventKind = "called" // the run was asked to start
	// its model is being asked; told live only
	Asking EventKind = "asking"
	// its model failed, and is asked again after a pause; told live only
	Retrying EventKind = "retrying"
	// its model may not be asked yet; told live only
	RateLimited EventKind = "waiting"
	Answered    EventKind = "answered" // its model called tools
	// it has answered, and waits for mail
	BecameIdle   EventKind = "idle"
	MailReceived EventKind = "mail"    // somebody has written to it
	ChildEnded   EventKind = "replied" // a run below the root ended
	// the run's wait for its calls, or its own time, was over
	TimedOut  EventKind = "timed out"
	Cancelled EventKind = "cancelled" // the run was told to end
	// the root ended: the last event of a tree
	TreeEnded EventKind = "concluded"

	// a person is to decide on its turn: its supervisor wants to pause
	Held EventKind = "held"
	// its turn is carried out: its supervisor, a person or their silence
	// says so
	Approved EventKind = "approved"
	// nothing of its turn is carried out
	Denied EventKind = "denied"
	// a person wants it to stop what it is doing
	Interrupted EventKind = "interrupted"
)

// Event is one thing that happened to a run of a tree.
type Event struct {
	Kind EventKind
	// whom it happened to; for Replied the child
	Run subjects.Run
	// of the stored message, 0 for what is told live only
	Seq uint64
	// by the server's clock; by this process's for what is told live only
	Time time.Time
	// who did it, where that is known
	Worker string
	// for Called: what the run was asked
	Input run.Input
	// for Called: its deadline, zero if that cannot be read
	Until time.Time
	// for Asking, Retrying, Waiting, Answered, Rested, TimedOut, Held,
	// Approved and Denied; 0 is the run's own time
	Turn int
	// for Answered and Rested: the model's stop reason
	Stop string
	// for Answered and Approved: one for each run called, those refused at
	// once too
	Calls []run.Call
	// for Answered: of its supervisor, without whose word nothing of the
	// turn is done
	Review *run.Call
	// for the first Answered or Rested of a run: what it was started with
	Start *run.Start
	// for Answered: tool calls, of which one may call several runs
	Tools int
	// for Replied and Concluded; for Rested what it has answered; for
	// Cancelled the outcome that the run is to have
	Outcome run.Outcome
	Mail    run.Mail // for Mailed
	// for Cancelled, Held, Approved and Denied; for Retrying the category
	// of the provider's error, for Waiting the limit, for TimedOut that it
	// was interrupted
	Reason string
	// for Approved and Denied: whose word it was, "" for nobody's; for Held
	// the supervisor
	By string

	// for Retrying: the next attempt at the turn, and how many there may be
	Attempt, Attempts int
	// for Retrying: when that is; for Waiting: not before, zero if nobody
	// knows
	Next time.Time
}

// event reads what a stored message tells; ok is false for one that tells
// nothing.
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
		// one that cannot be read counts as well
		_ = json.Unmarshal(body, &e.Input)
		e.Until, _ = subjects.ParseDeadline(m.Header.Get(subjects.HeaderDeadline))
		return e, true, nil
	case subjects.Log:
		return e.log(body)
	case subjects.Reply:
		return e.reply(at, body)
	case subjects.Mail:
		e.Kind = MailReceived
		e.Mail, err = run.DecodeMail(body)
		e.Mail.Seq = m.Seq
		return e, err == nil, err
	case subjects.Timer:
		e.Kind = TimedOut
		return e, true, nil
	case subjects.Cancel:
		var end run.End
		// one without a readable reason counts as well
		_ = json.Unmarshal(body, &end)
		e.Kind, e.Reason = Cancelled, end.Text
		e.Outcome = end.Outcome()
		return e, true, nil
	case subjects.Result:
		e.Kind = TreeEnded
		e.Outcome, err = run.DecodeOutcome(body)
		e.Worker = e.Outcome.Worker
		return e, err == nil, err
	case subjects.Interrupt:
		e.Kind = Interrupted
		return e, true, nil
	case subjects.Submission,
		subjects.Progress,
		subjects.Other,
		subjects.Approve: // what an approval comes to, decisions tells
	}
	return Event{}, false, nil
}

// log tells of a turn. What else a log may hold ends the run, which its outcome
// tells better.
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
		e.Kind, e.Stop = BecameIdle, entry.Answer.StopReason
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
	e.Kind, e.Outcome, e.Worker, e.Turn = ChildEnded, o, o.Worker, 0
	e.Run = at.Run.Space.Run(agent, at.Run.Tree, at.Run.Path.Child(at.Turn, at.Index))
	return e, true, nil
}

// partEvent reads what was told live.
func (c *Client) partEvent(m bus.Stored) (Event, bool) {
	at, err := c.conn.Space().Parse(m.Subject)
	if err != nil || at.Kind != subjects.Progress {
		return Event{}, false
	}
	var p run.Progress
	if json.Unmarshal(m.Body, &p) != nil || p.Again ||
		!slices.Contains([]EventKind{Asking, Retrying, RateLimited}, EventKind(p.Event)) {
		return Event{}, false
	}
	return Event{
		Kind: EventKind(p.Event), Run: at.Run, Time: time.Now(), Worker: p.Worker, Turn: p.Turn,
		Reason: p.Reason, Attempt: p.Attempt, Attempts: p.Attempts, Next: p.Next,
	}, true
}
