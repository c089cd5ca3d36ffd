package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/axebus/axe/subjects"
)

// Decode reads the event that a stored message is to the run of its address. It
// is the only place where a message becomes an event, so every reader of a run
// folds the same state. The address has a sender only if the message proves it.
// A body that is not there is passed as an empty one.
//
// The event is nil for a message that says nothing to the fold: a malformed
// mail, approval, settlement or return, the record of a sender that is not
// proven, a firing that no worker has checked yet, and a kind of message that
// this version does not know. It is also nil for an answer of the server to a
// read, except in place of a call or a log entry. A malformed outcome is a
// failed outcome. A malformed reason of a cancel message is a plain
// cancellation. The input of a malformed call, or of such an answer, holds the
// fields that could be read, and Called.Malformed says why. A malformed log
// entry, or such an answer, is an error that wraps ErrCorrupt.
//
// The outcome of the run itself is at its reply subject. For a child that is an
// address of its parent, where it decodes as Replied.
func Decode(at subjects.Address, m Meta, body []byte) (Event, error) {
	m.Time, m.Sender = m.Time.Add(m.Shift), at.By
	if m.Answer && at.Kind == subjects.Log {
		return nil, fmt.Errorf("%w: log message %d is an answer of the server to a read", ErrCorrupt, m.Seq)
	}
	if m.Answer && !at.Kind.Begins() { // a call without its headers is malformed
		return nil, nil
	}
	switch at.Kind {
	case subjects.Call, subjects.Tool:
		return decodeCall(at.Kind, m, body), nil
	case subjects.Log:
		e, err := DecodeEntry(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return e.shifted(m.Shift).Event(m), nil
	case subjects.Reply:
		o, malformed := outcomeOf(body)
		return Replied{Meta: m, Turn: at.Turn, Index: at.Index, Outcome: o, Malformed: malformed}, nil
	case subjects.Result:
		o, malformed := outcomeOf(body)
		return OutcomeStored{Meta: m, Outcome: o, Malformed: malformed}, nil
	case subjects.Mail:
		if mail, err := DecodeMail(body); err == nil {
			mail.Seq, mail.Key, mail.Sender = m.Seq, at.Key.String(), m.Sender
			return Mailed{m, mail}, nil
		}
	case subjects.Approve:
		if a, err := DecodeApproval(body); err == nil {
			return Approved{m, a}, nil
		}
	case subjects.Settle:
		if d, err := DecodeSettlement(body); err == nil {
			return Settled{m, d}, nil
		}
	case subjects.Interrupt:
		return Interrupted{m}, nil
	case subjects.Returned:
		return decodeReturned(at.Key, m, body), nil
	case subjects.Timer:
		return TimedOut{Meta: m, Turn: at.Turn}, nil
	case subjects.Cancel:
		return Cancelled{m, endOf(body)}, nil
	case subjects.CancelBy:
		if !at.By.IsZero() {
			return CancelSent{m, endOf(body)}, nil
		}
	case subjects.Submission, subjects.Due, subjects.Other, subjects.Progress:
	}
	return nil, nil // a message that says nothing is ignored
}

// decodeCall reads the call of a run. Its subject says whether that is a tool
// run, and the body has to agree.
func decodeCall(k subjects.Kind, m Meta, body []byte) Called {
	e := Called{Meta: m}
	if err := json.Unmarshal(body, &e.Input); err != nil {
		e.Malformed = fmt.Errorf("body of the call: %w", err)
	}
	switch isTool := k == subjects.Tool; {
	case isTool && e.Tool == nil:
		e.Tool = &ToolInput{}
		e.Malformed = cmp.Or(e.Malformed, errors.New("body of the call: the tool is missing"))
	case !isTool:
		e.Tool = nil
	}
	return e
}

// outcomeOf reads an outcome. A child that ended ends its parent's wait even if
// its outcome cannot be read.
func outcomeOf(body []byte) (Outcome, error) {
	o, err := DecodeOutcome(body)
	if err != nil {
		return Failure(KindError, "malformed %v", err), err
	}
	return o, nil
}

// endOf reads the reason in a cancel message. Any client may cancel a run with
// an empty body. Kinds that only a worker may give are kept; every other one
// counts as KindCancelled.
func endOf(body []byte) End {
	var e End
	if json.Unmarshal(body, &e) != nil {
		e = End{}
	}
	if !slices.Contains([]Kind{KindPoisoned, KindTimeout, KindBudget, KindUnknown}, e.Kind) {
		e.Kind = KindCancelled
	}
	if e.Text == "" {
		e.Text = string(e.Kind)
	}
	return e
}
