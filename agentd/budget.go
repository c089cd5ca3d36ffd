package agentd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// budgetTurn returns the run's next turn, to be counted in its scopes. An
// earlier delivery of the trigger may have counted it already.
func (x *execution) budgetTurn() budget.Turn {
	return budget.Turn{
		Run: x.run, Number: x.nextTurn(), Scopes: x.start.Scopes,
		Redelivered: x.t.Count > 1, Deadline: x.deadline(),
	}
}

// reserve counts the model call that is about to be made, and reserves its
// tokens, unless an earlier attempt of the turn or awaitRoom has done so.
func (x *execution) reserve(ctx context.Context, req *provider.Request) error {
	if x.reserved {
		return nil
	}
	err := x.w.tallies.Reserve(ctx, x.budgetTurn(), x.estimate(req))
	x.reserved = err == nil
	return err
}

// awaitRoom waits until the requests in flight have left room for this one, and
// reserves it. A long wait is published as progress.
//
// The run has no slot meanwhile: a run whose worker died with a request in
// flight may need the slot to go on, and this one waits for it.
func (x *execution) awaitRoom(ctx context.Context, req *provider.Request, p run.Progress) error {
	x.t.giveSlot()
	p.Event = run.ProgressWaiting
	p.Reason = run.WaitingForBudget
	w, r := x.w, x.run // the timer reads nothing of x
	long := time.AfterFunc(progressDelay, func() { w.publishProgress(ctx, r, p) })
	err := w.tallies.Await(ctx, x.budgetTurn(), x.estimate(req), w.drainBegun)
	long.Stop()
	if errors.Is(err, budget.ErrStopped) {
		return errDraining
	}
	if err == nil {
		x.reserved = true
		err = x.t.takeSlot(ctx, w.slots)
	}
	return err
}

// releaseTokens ends the reservation of the run's next turn, which gets no
// answer. The worker that made it may have died.
func (x *execution) releaseTokens(ctx context.Context) error {
	t := budget.Turn{Run: x.run, Number: x.nextTurn(), Scopes: x.header.Scopes}
	if x.start != nil {
		t.Scopes = x.start.Scopes
	}
	return x.w.tallies.Release(ctx, t)
}

const (
	// bytesPerToken is the size of a token of a request, as a rule.
	bytesPerToken = 4
	// usualAnswer is the estimate in tokens of an answer without a bound.
	usualAnswer = 1024
)

// estimate returns the tokens that a request is expected to use. The provider
// has counted all messages up to its last answer. Without a count, and for the
// messages after it, the estimate is a quarter of the bytes. A run without a
// budget has no estimate, since it costs a walk over all messages.
func (x *execution) estimate(req *provider.Request) budget.Estimate {
	if len(x.start.Scopes) == 0 {
		return budget.Estimate{}
	}
	e := budget.Estimate{Output: cmp.Or(req.MaxTokens, usualAnswer)}
	var counted provider.Usage
	if n := len(x.state.Turns); n > 0 {
		counted = x.state.Turns[n-1].Entry.Answer.Usage
	}
	if counted.InputTokens > 0 {
		e.Input = counted.InputTokens + counted.OutputTokens + req.NewBytes()/bytesPerToken
	} else {
		e.Input = req.Bytes() / bytesPerToken
	}
	return e
}

// countAnswer counts the tokens of a turn's answer, and the runs and tool runs
// that its calls start. It refuses the calls that a scope has no room for, the
// last ones first.
func (x *execution) countAnswer(ctx context.Context, resp *provider.Response, calls []run.Call) error {
	var wanted budget.Starts
	for _, c := range calls {
		if c.MakesRun() {
			wanted.Runs++
		} else if c.MakesToolRun() {
			wanted.Tools++
		}
	}
	granted, err := x.w.tallies.Record(ctx, x.budgetTurn(), resp.InputTokens+resp.OutputTokens, wanted)
	if err != nil {
		return err
	}
	refuseLast(calls, wanted.Runs-granted.Runs, run.Call.MakesRun, granted.Agents)
	refuseLast(calls, wanted.Tools-granted.Tools, run.Call.MakesToolRun, granted.ToolCalls)
	return nil
}

// refuseLast refuses the last n calls of a kind. Exceeded is the reason.
func refuseLast(calls []run.Call, n int, ofKind func(run.Call) bool, exceeded *budget.ExceededError) {
	for i := len(calls) - 1; i >= 0 && n > 0; i-- {
		if ofKind(calls[i]) {
			calls[i] = tool.Refused(calls[i], exceeded.Error())
			n--
		}
	}
}

// refundGrant refunds the runs that the last turn was granted and never starts:
// the turn was withheld, or the budget had room for its supervisor's run alone.
// It comes before the next model call, which may need the room.
func (x *execution) refundGrant(ctx context.Context) error {
	if len(x.state.Turns) == 0 {
		return nil
	}
	last := x.state.Turns[len(x.state.Turns)-1]
	if !last.HasUnusedGrant() {
		return nil
	}
	turn := budget.Turn{Run: x.run, Number: len(x.state.Turns), Scopes: x.state.Start().Scopes}
	started := budget.Starts{Runs: last.RunCount(), Tools: last.ToolRunCount()}
	return x.w.tallies.Refund(ctx, turn, started, last.Entry.Trigger)
}
