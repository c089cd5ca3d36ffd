package run

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/axebus/axe/subjects"
)

// HeldTool says that a tool run waits for a person: its call may have taken
// effect, and its settings ask a person then, or its tool asks for input.
type HeldTool struct {
	// ID is the id of the attempt or of the form that it is about.
	ID string
	// Since is the stream's time of the entry by which the run is held.
	Since time.Time
	// Until is the time at which the run times out.
	Until time.Time
	// Why says that the call may have taken effect, and which worker began
	// it, or what the tool asks.
	Why string
	// Form is what the tool asks, nil for a call that may have taken
	// effect.
	Form *Form
}

// SettleAs says how a person settles a held call.
type SettleAs string

// The ways to settle a call: the first three if it may have taken effect, the
// other two if its tool asks for input.
const (
	// SettleDone: the call has taken effect. Its result is the person's
	// text.
	SettleDone SettleAs = "done"
	// SettleAgain: the tool is called again, with the same key.
	SettleAgain SettleAs = "again"
	// SettleFail: the run that called the tool fails.
	SettleFail SettleAs = "fail"
	// SettleAnswer: the tool is called again, with the person's answers. A
	// task gets them, and goes on.
	SettleAnswer SettleAs = "answer"
	// SettleDecline: the tool is called again, and told that the person
	// gives no answers.
	SettleDecline SettleAs = "decline"
)

// FillsForm reports whether the decision is about a form: its answers, or that
// there are none.
func (a SettleAs) FillsForm() bool { return a == SettleAnswer || a == SettleDecline }

// Settlement is a person's decision about a held tool run. It is the body of a
// message.
type Settlement struct {
	// Attempt is the id of the attempt or of the form that it is about.
	// Empty is the one for which the run is held.
	Attempt string   `json:"attempt,omitzero"`
	As      SettleAs `json:"as"`
	// Text is the result of the call for SettleDone, and the reason for
	// SettleFail. The model that called the tool reads it.
	Text string `json:"text,omitzero"`
	// Answers are JSON objects, by the keys of the form's questions, for
	// SettleAnswer.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// By is the name that the person gives. It is not proven.
	By string `json:"by,omitzero"`
}

// DecodeSettlement reads a settlement from the body of its message. It returns
// an error for a body that is none, and for an unknown way to settle.
func DecodeSettlement(b []byte) (Settlement, error) {
	var d Settlement
	if err := json.Unmarshal(b, &d); err != nil {
		return Settlement{}, fmt.Errorf("settlement: %w", err)
	}
	switch d.As {
	case SettleDone, SettleAgain, SettleFail, SettleAnswer, SettleDecline:
		return d, nil
	}
	return Settlement{}, fmt.Errorf("settlement: as must be done, again, fail, answer or decline, got %q", d.As)
}

// holdTool folds the entry by which a tool run waits for a person. A call that
// asks for input ends its attempt. A task that asks goes on after the answers.
// A task that may have taken effect is over, and leaves the state.
func holdTool(s State, e ToolHeld) (State, error) {
	before := s.Phase
	s, err := s.append(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	form := e.Entry.Form
	if before != Ready && before != Polling || s.Input.Tool == nil || s.Attempt == nil && form == nil {
		return s, fmt.Errorf("%w: log message %d holds a %s run that has no attempt at a tool",
			ErrCorrupt, e.Seq, before)
	}
	s.Hold = &HeldTool{Since: e.Time, Until: e.Entry.Until, Why: e.Entry.End.Text, Form: form}
	switch {
	case form == nil:
		s.Hold.ID, s.Task = s.Attempt.ID, nil
	case s.Task == nil:
		s.Hold.ID, s.Attempt = form.ID, nil
	default:
		s.Hold.ID = form.ID
	}
	s.Phase, s.Owner, s.MayBeginAgain = Held, e.Entry.Trigger, false
	return s, nil
}

// Decides reports whether the decision is about the attempt or the form for
// which a tool run is held. Its sender may still be one that does not count.
func (e Settled) Decides(s State) bool {
	if s.Phase != Held || s.Hold == nil || e.Attempt != "" && e.Attempt != s.Hold.ID {
		return false
	}
	return e.As.FillsForm() == (s.Hold.Form != nil)
}

// Counts reports whether the decision of a user about the held tool run counts.
// It does unless the agent that called the tool has approvers, and the user is
// none of them.
func (in *ToolInput) Counts(sender subjects.By) bool { return in.Approvers.Names(sender) }

// settled folds a person's decision about a held tool run. The first one about
// an attempt or a form counts. It does nothing if the agent that called the
// tool has approvers, and the sender is none of them.
func settled(s State, e Settled) State {
	if !e.Decides(s) || !s.Input.Tool.Counts(e.Sender) {
		return s
	}
	s.Owner = e.Seq
	switch e.As {
	case SettleDone:
		s.Phase, s.settledWith = Completed, &e.Text
	case SettleAgain:
		s.Phase, s.MayBeginAgain = Ready, true
	case SettleFail:
		s.Phase, s.End = Failed, End{Kind: KindUnknown, Text: textSettledAsFailed(s.Hold.Why, e.Text)}
	case SettleAnswer, SettleDecline:
		filled := &FilledForm{Form: *s.Hold.Form, Declined: e.As == SettleDecline, Answers: e.Answers}
		if s.Task == nil {
			s.Phase, s.Filled = Ready, filled
		} else {
			s.Phase, s.Hold = Polling, nil
			s.Task = s.Task.answered(filled)
		}
	}
	return s
}
