package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// appendEntry appends an entry to the run's log. If the fence refuses the
// write, the result is a conflict.
func (x *execution) appendEntry(ctx context.Context, e run.Entry) (result, error) {
	e.Index = x.state.LogIndex + 1
	e.Trigger = x.t.Seq
	e.Seen = x.state.Seq
	e.Refused = x.state.Refused
	e.Worker = x.w.cfg.Name
	e.CancelsSeen = x.cancelsSeenBy(e.Answer != nil)
	body, err := json.Marshal(e)
	if err != nil {
		return result{}, err
	}
	timer, _ := x.needlessTimers(false)
	if e.Kind == run.EntryStarted && x.state.Hold != nil {
		timer = x.run.Timer(0) // of the wait for a person
	}
	needless := removeTimers(x.w.late, timer)
	seq, err := x.w.conn.Write(ctx, bus.Message{
		Subject: x.run.Log(), Body: body, Header: schema(),
		Fence: bus.After(x.run.Log(), x.state.LogSeq), Disarm: needless.disarm, Dated: x.clock().Now(),
	})
	needless.end(ctx, err == nil)
	return unlessRefused(result{minSeq: seq}, err)
}

// finishTurn ends a run with the outcome of its last turn. A forked run becomes
// idle instead, unless its budget is exceeded. A run with forks at work puts
// its answer on the log first, because the forks are to be ended before the
// outcome. Resp is nil if the model gave no answer. The answer of a forked run
// may count as a failure, if it was cut.
func (x *execution) finishTurn(ctx context.Context, o run.Outcome, resp *provider.Response) (result, error) {
	kind := run.EntryFinal
	if x.state.Input.Forked != nil && o.Kind != run.KindBudget {
		kind = run.EntryIdle
	}
	if kind == run.EntryFinal && len(x.state.Turns.Forks()) == 0 {
		return x.publishOutcome(ctx, o)
	}
	e := run.Entry{Kind: kind, Answer: cmp.Or(resp, &provider.Response{})}
	if resp == nil || kind == run.EntryIdle && o.Status == run.StatusFailed {
		e.End = new(o.End())
	}
	return x.appendTurn(ctx, e)
}

// appendTurn appends an entry with the cost of its turn. If the entry is too
// large to be stored, the turn fails instead.
func (x *execution) appendTurn(ctx context.Context, e run.Entry) (result, error) {
	e.ModelMS = x.cost.ms()
	e.Retries = x.cost.retries
	if x.state.Start() == nil {
		e.Start = x.start
	}
	res, err := x.appendEntry(ctx, e)
	if errors.Is(err, bus.ErrTooLarge) && (e.End == nil || e.Answer.Content != "") {
		return x.finishTurn(ctx, x.turnTooLarge(err), nil)
	}
	return res, err
}

// cancelsSeenBy returns the newest cancel message that a message of the run
// takes into account. For an answer of the model, that is the newest one that
// was known when the model was asked: a later one over the run has aborted the
// request, or came too late for it.
func (x *execution) cancelsSeenBy(answered bool) uint64 {
	if answered {
		return x.cancelsSeen
	}
	return x.w.cancels.seen(x.run)
}

// schema returns the headers of a message that needs no routing: the version of
// its body alone.
func schema() [][2]string { return [][2]string{{subjects.HeaderSchema, subjects.Schema}} }

// needlessTimers returns the timers that the run's next message makes needless,
// "" for none: the timer of the last turn and, if the message is the outcome of
// a run with its own timer, that one.
func (r *loadedRun) needlessTimers(outcome bool) (turn, own string) {
	n := len(r.state.Turns)
	// The entry that ends a log has removed the timer of the last turn.
	if n > 0 && r.state.LogIndex == n {
		if at := r.state.Turns[n-1].Entry.Timer; !at.IsZero() && !r.coveredByOwnTimer(at) {
			turn = r.run.Timer(n)
		}
	}
	if outcome && r.hasOwnTimer() {
		own = r.run.Timer(0)
	}
	return turn, own
}
