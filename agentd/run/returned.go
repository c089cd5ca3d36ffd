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

// The causes. Every cause but ReturnFailed and ReturnBegun excuses the
// delivery: it says nothing about the message.
const (
	// ReturnBegun: the worker begins with a message that was delivered often
	// before. The delivery counts if no other return follows.
	ReturnBegun ReturnCause = "begun"
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
func (c ReturnCause) excuses() bool { return c != ReturnFailed && c != ReturnBegun && c != "" }

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
	// Begun is the number of deliveries with which a worker has begun, and
	// of which nothing more is known.
	Begun int
	// Error is the error of the last one that failed.
	Error string
	// Delivery is the number of the newest delivery that has a return.
	Delivery int
	// Last is the newest return with a Turn.
	Last Return

	// seen has a bit for each of the deliveries Delivery, Delivery-1 …
	// Delivery-63 that has a return, and begun for each that is counted in
	// Begun.
	seen, begun uint64
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
// against it, the last one included, which is under way: those that failed, and
// those after which a worker that had begun wrote no word. Of the deliveries
// without any return, doubt at most count: a worker that dies writes none, but
// it may have died before it began.
func (r Returns) Counted(deliveries, doubt int) int {
	begun, silent := r.silent(deliveries)
	return 1 + r.Failed + begun + min(silent, doubt)
}

// Uncounted returns how many of the deliveries before the last one have no
// return and yet do not count.
func (r Returns) Uncounted(deliveries, doubt int) int {
	_, silent := r.silent(deliveries)
	return max(0, silent-doubt)
}

// Returned reports whether the worker of a delivery said that it let go of it.
// It is false for a delivery with a ReturnBegun alone, and for one that is 64
// or more before the newest one with a return.
func (r Returns) Returned(delivery int) bool {
	behind := r.Delivery - delivery
	return behind >= 0 && (r.seen&^r.begun)&(1<<behind) != 0
}

// silent returns how many deliveries before the last one ended without a word
// after their workers had begun, and how many have no return at all.
func (r Returns) silent(deliveries int) (begun, silent int) {
	begun = r.Begun
	if r.Delivery == deliveries && r.begun&1 != 0 {
		begun--
	}
	return begun, max(0, deliveries-1-r.Excused-r.Failed-begun)
}

// with counts one more return. It takes the place of a ReturnBegun of the same
// delivery. Any other second return of a delivery changes nothing, nor does one
// that comes 64 deliveries late.
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
	ahead := e.Delivery - r.Delivery
	if ahead > 0 {
		r.seen <<= min(ahead, 64)
		r.begun <<= min(ahead, 64)
		r.Delivery = e.Delivery
	}
	bit := uint64(1) << min(max(0, -ahead), 64)
	began := r.begun&bit != 0
	if bit == 0 || r.seen&bit != 0 && (!began || e.Cause == ReturnBegun) {
		return r, false
	}
	if began {
		r.begun &^= bit
		r.Begun--
	}
	r.seen |= bit
	if ahead >= 0 && e.Turn > 0 {
		r.Last = e.Return
	}
	switch {
	case e.Cause == ReturnBegun:
		r.begun |= bit
		r.Begun++
	case e.Cause.excuses():
		r.Excused++
	default:
		r.Failed++
		r.Error = e.Error
	}
	return r, true
}
