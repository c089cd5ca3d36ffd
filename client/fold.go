package client

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Fold turns the stored messages of one tree into events, with the state of
// their runs. It is the pure part of Follow, for programs that read the stream
// themselves. The zero value is a tree without messages.
type Fold struct {
	seq  uint64
	runs map[subjects.Path]knownRun
}

// knownRun is a run with its state after the messages so far. The turns of an
// ended run are dropped.
type knownRun struct {
	run   subjects.Run
	state run.State
}

// State returns the state of a run after the messages so far.
func (f *Fold) State(path subjects.Path) run.State { return f.runs[path].state }

// Apply folds the next message of the tree and returns its events: none, one,
// or the message's own event and then the decision on a turn that follows from
// it. Messages have to come in stream order. A repeated message is ignored, and
// so is a second outcome of a run. A message that a run's state does not accept
// leaves the state unchanged; the worker of such a run ends it.
func (f *Fold) Apply(at subjects.Address, m run.Meta, message run.Event) []Event {
	if f.runs == nil {
		f.runs = map[subjects.Path]knownRun{}
	}
	// An outcome is found outside the run's own subjects, in any order.
	if _, outcome := message.(run.OutcomeStored); !outcome {
		if m.Seq <= f.seq {
			return nil
		}
		f.seq = m.Seq
	}
	known := f.runs[at.Run.Path]
	before := known.state
	if after, err := before.Apply(message); err == nil {
		known.state = after
	}
	if _, called := message.(run.Called); called {
		known.run = at.Run
	}
	f.runs[at.Run.Path] = known

	e := Event{Run: at.Run, Seq: m.Seq, Time: m.Time, State: known.state, Sender: at.By}
	decided := e
	var events []Event
	if f.describe(&e, at, before, message) {
		events = append(events, e)
	}
	if decide(&decided, before, message) {
		events = append(events, decided)
	}
	return events
}

// describe completes the event of a message. It returns false for a message
// without an event of its own.
func (f *Fold) describe(e *Event, at subjects.Address, before run.State, message run.Event) bool {
	switch m := message.(type) {
	case run.Called:
		e.Kind, e.Input, e.Sender = Called, m.Input, m.By
		return before.CalledAt.IsZero()
	case run.Answered:
		e.Kind = Answered
		*e = e.withEntry(m.Entry)
	case run.AnsweredWithoutCalls:
		e.Kind = BecameIdle
		*e = e.withEntry(m.Entry)
		e.Outcome = idleOutcome(m.Entry)
		return m.Entry.Kind == run.EntryIdle
	case run.Replied:
		return f.endChild(e, at, m)
	case run.TimedOut:
		if before.Phase == run.Polling {
			return false // its timer polls a task
		}
		e.Kind, e.Turn = TimedOut, m.Turn
		if m.Turn > 0 && before.Interrupted() {
			e.Reason = string(Interrupted)
		}
	case run.Mailed:
		e.Kind, e.Mail = MailReceived, m.Mail
		_, e.Mail.Idle = m.IdleTurn()
	case run.Interrupted:
		e.Kind = Interrupted
	case run.ToolStarted, run.TaskMade:
		return false // nothing that a watcher waits for
	case run.ToolHeld:
		e.Kind, e.Entry, e.Worker = Held, m.Entry, m.Entry.Worker
		e.Reason = m.Entry.End.Text
		return e.State.Phase == run.Held
	case run.Settled:
		e.Kind, e.Settlement, e.By = Settled, m.Settlement, personOf(e.Sender, m.By)
		if m.Decides(before) && !before.Input.Tool.Counts(e.Sender) {
			e.Kind, e.Reason = NotCounted, needs(before.Input.Tool.Approvers)
			return true
		}
		return before.Phase == run.Held && e.State.Phase != run.Held
	case run.Approved:
		// One that counts is told as the decision on the turn.
		start := before.Start()
		e.Kind, e.By, e.Turn = NotCounted, personOf(e.Sender, m.By), len(before.Turns)
		if start != nil {
			e.Reason = needs(start.Approvers)
		}
		return m.Decides(before) && !start.Counts(e.Sender)
	case run.CancelSent:
		e.Kind, e.Cause = CancelSent, m.End
	case run.Cancelled:
		e.Kind, e.Cause = Cancelled, m.End
	case run.OutcomeStored:
		e.Kind = TreeEnded
		e.Outcome = m.Outcome
		e.Worker = m.Outcome.Worker
		f.runs[at.Run.Path] = knownRun{at.Run, endedState(m.Outcome)}
		return !before.OutcomeStored
	case run.Ended, run.Returned, run.OutcomeRefused: // the event that follows tells more
		return false
	}
	return true
}

// needs says of which users a decision counts.
func needs(a subjects.Approvers) string { return "needs " + a.String() }

// withEntry sets the fields that come from a log entry.
func (e Event) withEntry(entry run.Entry) Event {
	e.Entry = entry
	e.Turn = entry.Index
	e.Worker = entry.Worker
	return e
}

// idleOutcome returns the answer with which a run became idle.
func idleOutcome(e run.Entry) run.Outcome {
	if e.End != nil {
		return e.End.Outcome()
	}
	return run.Outcome{
		Status: run.StatusCompleted, Result: e.Answer.Content, StopReason: e.Answer.StopReason,
		Truncated: e.Answer.Truncated(),
	}
}

// endChild makes the event of a reply an event of the child. It returns false
// if the child has ended before, or is unknown: it was not called, and the
// reply names no agent.
func (f *Fold) endChild(e *Event, at subjects.Address, m run.Replied) bool {
	path := at.Run.Path.Child(at.Turn, at.Index)
	child := f.runs[path]
	if child.run.Agent.IsZero() {
		var err error
		if child.run, err = at.Run.At(m.Outcome.Agent, path); err != nil {
			return false
		}
	}
	ended := child.state.OutcomeStored
	e.Kind = ChildEnded
	e.Run = child.run
	e.Outcome = m.Outcome
	e.Worker = m.Outcome.Worker
	e.Caller = e.State
	e.State, _ = child.state.Apply(run.OutcomeStored{Meta: m.Meta, Outcome: m.Outcome})
	f.runs[path] = knownRun{child.run, endedState(m.Outcome)}
	return !ended
}

// endedState is the state of an ended run without its turns. It accepts no more
// messages.
func endedState(o run.Outcome) run.State {
	s, _ := run.State{}.Apply(run.OutcomeStored{Outcome: o})
	return s
}

// decide completes the event of a decision on a reviewed turn that follows from
// a message: the supervisor's outcome, a person's approval, or a timer. Whether
// the message decides follows from the state of the run. It returns false if
// nothing was decided. A turn that an interrupt withholds was not denied.
func decide(e *Event, before run.State, message run.Event) bool {
	after := e.State
	was, now := reviewResult(before), reviewResult(after)
	if now == "" || after.Interrupted() || now == was && len(before.Turns) == len(after.Turns) {
		return false
	}
	t := after.Turns[len(after.Turns)-1]
	e.Kind = now
	e.Turn = len(after.Turns)
	e.Entry = t.Entry
	e.By = after.Start().Supervision.Agent
	if now != Approved {
		e.Reason = t.Why
	}
	switch m := message.(type) { //nolint:gochecksumtype // for any other message the supervisor decided
	case run.Approved:
		e.By, e.Reason = personOf(e.Sender, m.By), m.Reason
	case run.TimedOut:
		if was == Held {
			e.By, e.Reason = "", "no person decided in time"
		}
	}
	return true
}

// personOf names the sender of a decision: the user that the server has proven
// or, for a sender that is not known, the name that the decision gives.
func personOf(sender subjects.By, name string) string {
	return cmp.Or(sender.String(), Claimed(name), DefaultName)
}

// Claimed returns a name that the author of a message gives, for people. A name
// that could look like a proven one, as in "alice (operator)", is quoted.
func Claimed(name string) string {
	if strings.ContainsRune(name, '(') {
		return strconv.Quote(name)
	}
	return name
}

// reviewResult returns Held, Approved or Denied for a run with a reviewed last
// turn, and "" for any other run.
func reviewResult(s run.State) EventKind {
	if len(s.Turns) == 0 || !s.Turns[len(s.Turns)-1].Entry.Deferred() {
		return ""
	}
	switch t := s.Turns[len(s.Turns)-1]; {
	case s.Phase == run.Held:
		return Held
	case t.CarriedOut():
		return Approved
	case t.Withheld() != "":
		return Denied
	}
	return ""
}
