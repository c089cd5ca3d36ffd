package client

import (
	"encoding/json"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. Asking, Running, Retrying, RateLimited and Stalled are
// live events: no stream stores them.
const (
	// Called: the run was asked to start.
	Called EventKind = "called"
	// Asking: a worker sends a request to the run's model.
	Asking EventKind = run.ProgressAsking
	// Running: a worker carries out the tool of a tool run.
	Running EventKind = run.ProgressRunning
	// Retrying: a request failed and will be sent again after a pause.
	Retrying EventKind = run.ProgressRetrying
	// RateLimited: a request waits for a limit of the model's provider, or
	// for room in its budget.
	RateLimited EventKind = run.ProgressWaiting
	// Stalled: the run needs a worker and has none, for Event.Reason. With
	// an empty Reason it has one again. The follower finds this itself.
	Stalled EventKind = "stalled"
	// Answered: the model called tools.
	Answered EventKind = "answered"
	// BecameIdle: the run's turn ended with an answer or a failure, and the
	// run waits for mail.
	BecameIdle EventKind = "idle"
	// MailReceived: another run or a person wrote to the run.
	MailReceived EventKind = "mail"
	// TimedOut: the time for the calls of a turn is over. Turn 0: the time
	// of the whole run is over.
	TimedOut EventKind = "timed out"
	// Held: a turn waits for a person to approve or deny it, or a tool run
	// for a person to settle its call.
	Held EventKind = "held"
	// Approved: a reviewed turn is carried out.
	Approved EventKind = "approved"
	// Denied: no call of a reviewed turn is carried out.
	Denied EventKind = "denied"
	// NotCounted: a decision about a held turn or a held call of a tool
	// does not count, since its sender is no approver of the agent.
	NotCounted EventKind = "not counted"
	// Settled: a person settled the call of a held tool run.
	Settled EventKind = "settled"
	// Interrupted: a person stopped the run's work.
	Interrupted EventKind = "interrupted"
	// CancelSent: a user that is known sends the cancel message.
	CancelSent EventKind = "cancel sent"
	// Cancelled: the run has a cancel message. Its outcome follows.
	Cancelled EventKind = "cancelled"
	// ChildEnded: a run below the root has an outcome.
	ChildEnded EventKind = "replied"
	// TreeEnded: the root has an outcome.
	TreeEnded EventKind = "concluded"
)

// Event is one thing that happened to a run of a tree.
type Event struct {
	Kind EventKind
	// Run is the run that the event is about. For ChildEnded it is the
	// child.
	Run subjects.Run
	// Seq is the sequence of the stored message, 0 for a live event.
	Seq uint64
	// Time is the time at which the server stored the message. For a live
	// event it is the time of its arrival.
	Time time.Time
	// Worker names the worker that caused the event, if one did.
	Worker string
	// Turn counts from 1. It is 0 for events that concern no turn.
	Turn int
	// State is the state of Run after the event: its phase, its turns and
	// its unread mail.
	State run.State
	// Caller is the state of the run that called Run, for ChildEnded.
	Caller run.State

	// Input is the request to the run, for Called.
	Input run.Input
	// Deadline is the deadline of the run, for Called. It is zero if the
	// call has no readable deadline.
	Deadline time.Time
	// due is the deadline as the call names it.
	due due
	// Traceparent is the W3C trace context of the submitter, for Called.
	// It is not checked.
	Traceparent string
	// Entry is the log entry of the turn, for Answered, BecameIdle, Held,
	// Approved and Denied.
	Entry run.Entry
	// Outcome is the outcome of the run, for ChildEnded and TreeEnded. For
	// BecameIdle it is the answer so far, or the failure.
	Outcome run.Outcome
	// Mail is the message, for MailReceived.
	Mail run.Mail
	// Cause says why the run ends, for Cancelled and CancelSent.
	Cause run.End
	// Settlement is the person's decision about a held call, for Settled
	// and NotCounted.
	Settlement run.Settlement
	// Reason says why, for Held, Approved, Denied and Stalled. For
	// NotCounted it names the approvers. For TimedOut
	// it is "interrupted" if an interrupt ended the wait.
	Reason string
	// Again says, for Stalled, that an earlier event reported the same.
	// Times in Reason are up to date.
	Again bool
	// By names the supervisor or the person behind Held, Approved, Denied,
	// NotCounted and Settled. It is empty if no person decided on a held
	// turn in time. For a Sender it is Sender.String, and otherwise the
	// name that the person gives.
	By string
	// Sender is the user that sent the message, as the server has proven
	// it. It is zero if the sender is not known. For Called it is the user
	// that submitted the task, according to the worker that took it.
	Sender subjects.By
	// Progress is the worker's report, for a live event.
	Progress run.Progress
}

// Live reports whether the event was published and not stored.
func (e Event) Live() bool { return e.Seq == 0 }

// decodeProgress decodes a live event. Ok is false for any other message, and
// for a report that another worker has published before.
func decodeProgress(space subjects.Space, m bus.Stored) (e Event, ok bool) {
	at, err := space.Parse(m.Subject)
	if err != nil || at.Kind != subjects.Progress {
		return Event{}, false
	}
	var p run.Progress
	if json.Unmarshal(m.Body, &p) != nil || p.Again {
		return Event{}, false
	}
	kind := EventKind(p.Event)
	return Event{
		Kind: kind, Run: at.Run, Time: time.Now(), Worker: p.Worker, Turn: p.Turn, Progress: p,
	}, kind == Asking || kind == Running || kind == Retrying || kind == RateLimited
}
