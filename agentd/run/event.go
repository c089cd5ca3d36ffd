package run

import (
	"time"

	"github.com/axebus/axe/subjects"
)

// Event is something that happened to a run. The set is closed. Decode makes
// events of stored messages.
//
//sumtype:decl
type Event interface {
	meta() Meta
	event()
}

// Meta is the place of an event's message in the stream.
type Meta struct {
	Seq uint64
	// Time is the stream's time: the server's clock when it stored the
	// message.
	Time time.Time
	// Shift is the sum of the steps of the server's clock since then.
	// Decode moves Time, and the times in a log entry, by it: they are then
	// times of the server's present clock.
	Shift time.Duration
	// Imported says that the message is a record from another stream, where
	// it had Seq and Time.
	Imported bool
	// Answer says that the message is an answer of the server to a request
	// for a read (bus.Stored.IsAnswer). It is no message to the run.
	Answer bool
	// Sender is the user that sent the message, as the server has proven
	// it. It is zero if the sender is not known.
	Sender subjects.By
}

func (m Meta) meta() Meta { return m }

// Called is the request to run.
type Called struct {
	Meta
	Input
	// Malformed says why the body of the call cannot be read, nil if it
	// can. The fold ignores it: a worker that owns the run refuses the
	// call.
	Malformed error
}

// Answered is an answer on the log that calls tools.
type Answered struct {
	Meta
	Entry Entry
}

// Ended is the end of the run on its log, which fences every other writer.
type Ended struct {
	Meta
	Entry Entry
}

// ToolStarted is the start of a tool's work on its log.
type ToolStarted struct {
	Meta
	Entry Entry
}

// ToolHeld is the entry on its log by which a tool run waits for a person.
type ToolHeld struct {
	Meta
	Entry Entry
}

// TaskMade is the entry on its log by which a tool run waits for a task of its
// tool's server.
type TaskMade struct {
	Meta
	Entry Entry
}

// Settled is a person's decision about a held tool run.
type Settled struct {
	Meta
	Settlement
}

// Replied is the outcome of a child, of a tool run, or of a supervisor's run,
// in its reply slot.
type Replied struct {
	Meta
	Turn, Index int
	Outcome     Outcome
	// Malformed says why the outcome cannot be read, nil if it can.
	Malformed error
}

// ofItsCall reports whether the run that the call made has written the outcome.
func (e Replied) ofItsCall() bool {
	path, err := subjects.ParsePath(e.Outcome.Path)
	_, turn, index, below := path.Parent()
	return err == nil && below && turn == e.Turn && index == e.Index
}

// OutcomeRefused is an outcome in a reply slot that does not count, since no
// worker that may speak for the called agent has signed it. A reader makes it
// of a Replied. It is as if the outcome was not there, and the next log entry
// says so.
type OutcomeRefused struct{ Meta }

// TimedOut is the end of the time of a turn or, with turn 0, a firing of the
// timer of the run's own deadline, which the fold ignores.
type TimedOut struct {
	Meta
	Turn int
}

// Mailed is a message of another run or of a person.
type Mailed struct {
	Meta
	Mail
}

// AnsweredWithoutCalls is an entry of the log without calls: an answer, or the
// end of a turn that got none (Entry.End).
type AnsweredWithoutCalls struct {
	Meta
	Entry Entry
}

// Approved is a person's decision about a held turn.
type Approved struct {
	Meta
	Approval
}

// Interrupted is a person's request that the run stops its work and becomes
// idle.
type Interrupted struct{ Meta }

// Returned is a worker's word that it let go of a delivery. It makes nothing
// owed, and changes no owner.
type Returned struct {
	Meta
	// Trigger is the sequence of the message that was delivered.
	Trigger uint64
	// Delivery is the number of the delivery, from 1.
	Delivery int
	Return
}

// Cancelled is the run's cancel message.
type Cancelled struct {
	Meta
	End End
}

// CancelSent is the record of the user that sends the cancel message. It
// changes nothing: the cancel message follows.
type CancelSent struct {
	Meta
	End End
}

// OutcomeStored is the run's own outcome, found at its reply subject. That is
// not one of the run's subjects, so the event may be applied at any time.
type OutcomeStored struct {
	Meta
	Outcome Outcome
	// Malformed says why the outcome cannot be read, nil if it can.
	Malformed error
}

func (Called) event()               {}
func (Answered) event()             {}
func (Ended) event()                {}
func (ToolStarted) event()          {}
func (ToolHeld) event()             {}
func (TaskMade) event()             {}
func (Settled) event()              {}
func (Replied) event()              {}
func (OutcomeRefused) event()       {}
func (TimedOut) event()             {}
func (Mailed) event()               {}
func (AnsweredWithoutCalls) event() {}
func (Approved) event()             {}
func (Interrupted) event()          {}
func (Returned) event()             {}
func (Cancelled) event()            {}
func (CancelSent) event()           {}
func (OutcomeStored) event()        {}
