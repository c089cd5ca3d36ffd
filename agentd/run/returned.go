package run

import (
	"encoding/json"
	"slices"

	"github.com/axebus/axe/subjects"
)

// Return is the body of a message in which a worker says that it let go of a
// delivery, and what the next worker has to know. The key of the message names
// the delivery.
type Return struct {
	// Cause is the reason.
	Cause ReturnCause `json:"cause"`
	// Error is the error of a ReturnFailed.
	Error string `json:"error,omitzero"`
	// Turn is the turn that the run was to take, from 1. It is 0 if the run
	// was not ready, as far as the worker had read it.
	Turn int `json:"turn,omitzero"`
	// AskedMS is the time in ms of the last request to the model, if its
	// answer is not stored. It is then at least 1. It is 0 if there is no
	// such request.
	AskedMS int64 `json:"asked_ms,omitzero"`
	// Attempt is the number of that request, or of the next one, if other
	// requests for the turn have failed before. Otherwise it is 0.
	Attempt int `json:"attempt,omitzero"`
	// Late is the outcome that the worker found out too late, or the output
	// of a tool that was stopped. It changes nothing: it is for people.
	Late *Outcome `json:"late,omitempty"`
	// Worker is the name of the worker.
	Worker string `json:"worker"`
}

// ReturnCause is the reason why a worker let go of a delivery.
type ReturnCause string

// The causes. Every cause but ReturnFailed excuses the delivery: it says
// nothing about the message.
const (
	// ReturnDrained: the worker drained.
	ReturnDrained ReturnCause = "drained"
	// ReturnLeaseLost: the worker was stopped, or cut off from the server,
	// for longer than its lease.
	ReturnLeaseLost ReturnCause = "lease_lost"
	// ReturnUnused: the worker had not begun with the message. It had no
	// free slot for a call, or had stopped pulling.
	ReturnUnused ReturnCause = "unused"
	// ReturnFailed: the worker could not carry out the effects that the run
	// owed.
	ReturnFailed ReturnCause = "failed"
	// ReturnLate: the run had ended before the worker knew the outcome of a
	// tool, or while the tool was at work.
	ReturnLate ReturnCause = "late"
)

// excuses reports whether a delivery with this return says nothing about the
// message. A cause that this version does not know excuses: a newer worker has
// written it.
func (c ReturnCause) excuses() bool { return c != ReturnFailed && c != "" }

// decodeReturned returns nil for a key or a body that no worker writes.
func decodeReturned(key subjects.Key, m Meta, body []byte) Event {
	e := Returned{Meta: m}
	var ok bool
	e.Trigger, e.Delivery, ok = subjects.ParseReturnKey(key.String())
	if !ok || json.Unmarshal(body, &e.Return) != nil || e.Cause == "" {
		return nil
	}
	return e
}

// maxReturns bounds the triggers of which a state has the returns. A run has
// one owner at a time, and a worker lets go of few others.
const maxReturns = 8

// TriggerReturns counts the returns of a run by trigger. It has the last
// triggers with any, at most maxReturns, in the order of their first return.
type TriggerReturns []Returns

// Returns counts the returns of the deliveries of one trigger. The zero value
// is a trigger without any.
type Returns struct {
	Trigger uint64
	// Excused is the number of deliveries that say nothing about the
	// trigger.
	Excused int
	// Failed is the number of deliveries that failed.
	Failed int
	// Error is the error of the last one that failed.
	Error string
	// Delivery is the number of the newest delivery that has a return.
	Delivery int
	// Last is the newest return with a Turn.
	Last Return

	// seen has a bit for each of the deliveries Delivery, Delivery-1 …
	// Delivery-63 that has a return.
	seen uint64
}

// Of returns the returns of a trigger.
func (all TriggerReturns) Of(trigger uint64) Returns {
	for _, r := range all {
		if r.Trigger == trigger {
			return r
		}
	}
	return Returns{Trigger: trigger}
}

// Counted returns how many of a number of deliveries of the trigger count
// against it: all that no return excuses, the current one included. A worker
// that dies writes no return, so its delivery counts.
func (r Returns) Counted(deliveries int) int { return deliveries - r.Excused }

// with counts one more return. A second return of one delivery changes nothing,
// nor does one that comes 64 deliveries late.
func (all TriggerReturns) with(e Returned) TriggerReturns {
	r, ok := all.Of(e.Trigger).with(e)
	if !ok {
		return all
	}
	i := slices.IndexFunc(all, func(r Returns) bool { return r.Trigger == e.Trigger })
	all = slices.Clone(all)
	if i >= 0 {
		all[i] = r
		return all
	}
	all = append(all, r)
	return all[max(0, len(all)-maxReturns):]
}

// with counts one more return. It returns false if the return counts already,
// or comes too late to tell.
func (r Returns) with(e Returned) (Returns, bool) {
	if ahead := e.Delivery - r.Delivery; ahead > 0 {
		r.seen = r.seen<<min(ahead, 64) | 1
		r.Delivery = e.Delivery
		if e.Turn > 0 {
			r.Last = e.Return
		}
	} else {
		bit := uint64(1) << min(-ahead, 64)
		if bit == 0 || r.seen&bit != 0 {
			return r, false
		}
		r.seen |= bit
	}
	if e.Cause.excuses() {
		r.Excused++
	} else {
		r.Failed++
		r.Error = e.Error
	}
	return r, true
}
