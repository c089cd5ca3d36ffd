package run

import (
	"encoding/json"
	"fmt"
	"time"
)

// HeldTool says that a tool run waits for a person: its call may have taken
// effect, and its settings ask a person then.
type HeldTool struct {
	// Since is the stream's time of the entry by which the run is held.
	Since time.Time
	// Until is the time at which the run times out.
	Until time.Time
	// Why says that the call may have taken effect, and which worker began
	// it.
	Why string
}

// SettleAs says how a person settles a call that may have taken effect.
type SettleAs string

// The ways to settle a call.
const (
	// SettleDone: the call has taken effect. Its result is the person's
	// text.
	SettleDone SettleAs = "done"
	// SettleAgain: the tool is called again, with the same key.
	SettleAgain SettleAs = "again"
	// SettleFail: the run that called the tool fails.
	SettleFail SettleAs = "fail"
)

// Settlement is a person's decision about a held tool run. It is the body of a
// message.
type Settlement struct {
	// Attempt is the id of the attempt that it is about. Empty is the
	// attempt for which the run is held.
	Attempt string   `json:"attempt,omitzero"`
	As      SettleAs `json:"as"`
	// Text is the result of the call for SettleDone, and the reason for
	// SettleFail. The run's model, or the caller of the run, reads it.
	Text string `json:"text,omitzero"`
	// By is the name of the person.
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
	case SettleDone, SettleAgain, SettleFail:
		return d, nil
	}
	return Settlement{}, fmt.Errorf("settlement: as must be done, again or fail, got %q", d.As)
}

// holdTool folds the entry by which a tool run waits for a person.
func holdTool(s State, e ToolHeld) (State, error) {
	before := s.Phase
	s, err := s.append(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	if before != Ready || s.Input.Tool == nil || s.Attempt == nil {
		return s, fmt.Errorf("%w: log message %d holds a run that has no attempt at a tool", ErrCorrupt, e.Seq)
	}
	s.Hold = &HeldTool{Since: e.Time, Until: e.Entry.Until, Why: e.Entry.End.Text}
	s.Phase, s.Owner, s.MayBeginAgain = Held, e.Entry.Trigger, false
	return s, nil
}

// settled folds a person's decision about a held tool run. The first one about
// an attempt counts.
func settled(s State, e Settled) State {
	if s.Phase != Held || s.Hold == nil || e.Attempt != "" && e.Attempt != s.Attempt.ID {
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
	}
	return s
}
