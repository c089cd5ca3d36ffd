package agentd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// execution is one run being carried out by one worker under one trigger.
type execution struct {
	*loadedRun
	t *trigger
	// start is the run's start: that of the first log entry, or the one
	// that the first entry will record. It is nil until it is resolved.
	start *run.Start
	// cost is the cost of the requests to the model for the current turn.
	cost callCost
	// reserved says that the model call of the current turn is counted and
	// its tokens are reserved in the budget.
	reserved bool
	// cancelsSeen is the newest cancel message that was known when the
	// model was asked last.
	cancelsSeen uint64
	// rereads counts how often the run was read again because the last read
	// was stale when its model was about to be asked.
	rereads int
	// overdue says that a request to the model was aborted by the run's
	// deadline.
	overdue bool
	// expiredAtRead says that the trigger's lease may have been over when
	// the last read began.
	expiredAtRead bool
	// claimed says that no other worker keeps the trigger (claim).
	claimed bool
	// attemptID is the id of this execution's attempt at its tool, ""
	// before it has one.
	attemptID string
	// late is a timer that is put off. The trigger is acknowledged once it
	// is set, or needless. It is nil without one.
	late *lateTimer
	// sentEntry is the last log index of which the side effects (messages,
	// forks, kills, idle notices) were published under this trigger.
	sentEntry int
}

// result is the result of carrying out an effect. Either the run owes nothing
// more under this trigger (done), or the run is to be read.
type result struct {
	done bool
	// minSeq is the sequence that the read has to contain.
	minSeq uint64
	// conflict says that the message minSeq refused a write.
	conflict bool
}

var finished = result{done: true}

// unlessRefused returns res and err, the result of a write and its error. If
// another message has refused the write, it returns a conflict and no error.
func unlessRefused(res result, err error) (result, error) {
	if conflict, ok := errors.AsType[*bus.ConflictError](err); ok {
		return result{minSeq: conflict.Last, conflict: true}, nil
	}
	return res, err
}

// handle reads once for a batch of triggers. It acknowledges the triggers that
// do not own the effects that the run owes, and acts under the others. After an
// error the caller drops the loaded run.
func (r *loadedRun) handle(ctx context.Context, batch []*trigger) error {
	if batch = r.dropExpired(ctx, batch); len(batch) == 0 {
		return nil
	}
	r.sayBegun(ctx, batch)
	known := r.state.Seq > 0
	err := r.settleAndRead(ctx, batch)
	if known && errors.Is(err, run.ErrCorrupt) {
		// The messages that were read before may have been removed
		// since, and the run may have begun anew.
		r.forget()
		err = r.settleAndRead(ctx, batch)
	}
	if err != nil {
		r.readFailed(ctx, batch, err)
		return err
	}
	var owners []*execution
	for _, t := range batch {
		x := &execution{loadedRun: r, t: t}
		if x.owes() {
			owners = append(owners, x)
		} else {
			x.rememberAgain(ctx)
			r.w.acknowledge(ctx, t)
		}
	}
	var failed error
	for _, x := range owners {
		if err := x.act(ctx); err != nil {
			if errors.Is(err, errKept) {
				r.w.release(x.t)
				x.t.Leave()
				continue
			}
			failed = err
			x.letGo(ctx, err, x)
			continue
		}
		if x.late != nil {
			r.w.release(x.t)
			r.w.late.putOff(x.late)
			continue
		}
		r.w.acknowledge(ctx, x.t)
	}
	return failed
}

// dropExpired leaves out the triggers that waited here beyond their leases,
// while the server heard nothing of this process. The server delivers them
// again, and another worker may have them already.
func (r *loadedRun) dropExpired(ctx context.Context, batch []*trigger) []*trigger {
	var expired []*execution
	rest := slices.DeleteFunc(batch, func(t *trigger) bool {
		if !t.LeaseExpired() {
			return false
		}
		expired = append(expired, &execution{loadedRun: r, t: t})
		return true
	})
	r.letGo(ctx, errLeaseLost, expired...)
	return rest
}

// readFailed handles triggers after a failed read. A run that is corrupt, or
// lost by removal, ends. Any other failure may pass, but a cancel message that
// was delivered more than Config.Poison times ends the run all the same.
//
// Without the run no worker knows the returns of a cancel message, so all of
// its deliveries count. A read takes no model call, and hardly ever meets a
// drain.
func (r *loadedRun) readFailed(ctx context.Context, batch []*trigger, failed error) {
	var kept []*execution
	why := failed
	for _, t := range batch {
		err := failed
		switch {
		case errors.Is(err, run.ErrRemoved):
			err = failRemoved(ctx, r.w, t.at.Run, t.Seq, err)
		case errors.Is(err, run.ErrCorrupt):
			err = r.w.failPoisoned(ctx, t, err.Error())
		case t.at.Kind == subjects.Cancel && t.Count > r.w.cfg.Poison:
			err = r.w.failPoisoned(ctx, t, "the cancel message was delivered too often")
		}
		if err == nil {
			r.w.acknowledge(ctx, t)
		} else {
			why = err
			kept = append(kept, &execution{loadedRun: r, t: t})
		}
	}
	r.letGo(ctx, why, kept...)
}

// owes reports whether the run owes an effect to the holder of the trigger: the
// trigger owns it, or is the firing of the run's own timer or of the one that
// its last turn waits for.
func (x *execution) owes() bool {
	if x.state.OutcomeStored || x.state.Phase == run.None {
		return false
	}
	_, fired := firingOf(x)
	return (x.state.Owner == x.t.Seq || x.t.ownTimerFired() || fired) && x.state.Outstanding().Then != nil
}

// deadlineFired reports whether the trigger is the firing of the run's own
// timer, and ends the run's wait. The timer of a run with a task polls the
// task.
func (x *execution) deadlineFired() bool { return x.t.ownTimerFired() && x.state.Phase != run.Polling }

// act carries out the effects that the run owes to the holder of the trigger.
// If step is not done, for example after a log entry or a refused write, it
// reads the run again and carries out the effects that are owed then. On nil
// the trigger may be acknowledged.
//
// A message that was read already may refuse a write. It would refuse it for
// ever. That is an error, after which the whole run is read.
func (x *execution) act(ctx context.Context) error {
	for x.owes() {
		if ended, err := x.hasOutcome(ctx); err != nil || ended {
			return err
		}
		res, err := x.step(ctx)
		if err != nil || res.done {
			return err
		}
		if res.conflict && res.minSeq <= x.state.Seq {
			return fmt.Errorf("the messages of %s up to %d do not show why message %d refuses a write",
				x.run, x.state.Seq, res.minSeq)
		}
		x.expiredAtRead = x.t.LeaseExpired()
		if err := x.readWithReply(ctx, res.minSeq); err != nil {
			return err
		}
	}
	return nil
}

// step carries out everything that the run owes now: its side effects, then its
// main effect. The result is that of the main effect. Before that, step sets a
// timer again that fired too early, refuses a malformed call, makes a run fail
// that has to, and ends a wait whose time is over. Each of these takes the
// place of the effects.
func (x *execution) step(ctx context.Context) (result, error) {
	f, fired := firingOf(x)
	if fired {
		if early, err := f.setAgain(ctx); early || err != nil {
			return finished, err
		}
	}
	if x.state.Ended() && x.isPoisoned(x.t) {
		return finished, x.w.failPoisoned(ctx, x.t, "the end was delivered too often")
	}
	if !x.state.Ended() {
		if x.callErr != nil {
			return x.refuseCall(ctx)
		}
		end, failed, err := x.mustFail(ctx)
		if err != nil {
			return result{}, err
		}
		if failed {
			return x.cancelSelf(ctx, end)
		}
	}
	switch {
	case fired:
		return finished, f.endWait(ctx)
	case x.t.ownTimerFired() && x.state.Phase == run.Polling:
		return runTool(ctx, x)
	}
	x.start = x.state.Start()
	x.cost = callCost{}
	x.reserved = false
	owed := x.state.Outstanding()
	// A ready run may be read several times before its model is asked. Its
	// side effects are published once for each log entry.
	if x.state.Phase != run.Ready || x.sentEntry != x.state.LogIndex {
		for _, e := range owed.SideEffects {
			if _, err := x.carryOut(ctx, e); err != nil {
				return result{}, err
			}
		}
	}
	return x.carryOut(ctx, owed.Then)
}

// carryOut carries out one effect.
func (x *execution) carryOut(ctx context.Context, e run.Effect) (result, error) {
	switch e := e.(type) {
	case run.CallModel:
		x.sentEntry = x.state.LogIndex
		return x.takeTurn(ctx)
	case run.CallTool:
		return runTool(ctx, x)
	case run.CallChildren:
		return finished, callChildren(ctx, x, e)
	case run.CancelBelow:
		return finished, x.stopBelow(ctx, run.StopBelow{Below: e.Below, End: e.End})
	case run.StopBelow:
		return finished, x.stopBelow(ctx, e)
	case run.LogInterrupt:
		return x.logInterrupt(ctx)
	case run.HoldTurn:
		return finished, x.holdTurn(ctx, e)
	case run.HoldTool:
		return finished, x.w.writeAll(ctx, []bus.Message{ownTimer(x)})
	case run.AwaitTask:
		return awaitTask(ctx, x)
	case run.CancelTask:
		cancelTask(ctx, x, e.ID)
		return finished, nil
	case run.PublishSettled:
		return x.publishOutcome(ctx, run.Outcome{Status: run.StatusCompleted, Result: e.Result})
	case run.NotifyIdle:
		return finished, x.notifyIdle(ctx, e)
	case run.PublishAnswer:
		return x.publishOutcome(ctx, outcomeOfAnswer(x.state.Turns[e.Turn-1].Entry.Answer, x.start))
	case run.LogEnd:
		if err := x.releaseTokens(ctx); err != nil {
			return result{}, err
		}
		return x.appendEntry(ctx, run.Entry{Kind: run.EntryEnded, End: &e.End})
	case run.PublishFailure:
		return x.publishOutcome(ctx, e.End.Outcome())
	}
	return finished, nil
}

// mustFail reports whether the run has to fail before anything else is done for
// it, and with which end.
func (x *execution) mustFail(ctx context.Context) (end run.End, failed bool, err error) {
	if x.w.cancels.isCancelled(x.run) {
		return run.End{Kind: run.KindCancelled, Text: "cancelled"}, true, nil
	}
	late := x.deadlineFired() || x.overdue
	if !late {
		if late, err = x.clock().Passed(ctx, x.deadline()); err != nil {
			return run.End{}, false, err
		}
	}
	switch {
	case late:
		end := run.EndTimeout(max(0, x.header.Deadline.Sub(x.state.CalledAt)))
		return lateEnd(x, end), true, nil
	case x.isPoisoned(x.t):
		text := tool.GivenUp(x.state.Returns.Of(x.t.Seq), x.t.Count, x.w.cfg.doubt())
		return run.End{Kind: run.KindPoisoned, Text: text}, true, nil
	}
	return run.End{}, false, nil
}

// lateEnd adds to the end of a run by its deadline that a person has not
// decided until then. A caller is not told that its child is supervised.
func lateEnd(x *execution, end run.End) run.End {
	switch {
	case x.state.Phase != run.Held:
	case x.state.Hold != nil:
		say := tool.Unsettled
		if x.state.Hold.Form != nil {
			say = tool.Unanswered
		}
		end.Text = say(end.Text, x.state.Hold.Why)
	case x.run.Path.IsRoot():
		end.Text = tool.Unapproved(end.Text)
	}
	return end
}

// isPoisoned reports whether a trigger was delivered too often. Only the
// deliveries count that failed, or that ended without a word from their worker.
func (r *loadedRun) isPoisoned(t *trigger) bool {
	return r.state.Returns.Of(t.Seq).Counted(t.Count, r.w.cfg.doubt()) > r.w.cfg.Poison
}

// cancelSelf writes the run's own cancel message. The delivery of that message
// does the rest. The trigger of a poisoned run becomes a dead letter first.
func (x *execution) cancelSelf(ctx context.Context, end run.End) (result, error) {
	if end.Kind == run.KindPoisoned {
		if err := x.w.deadLetter(ctx, x.run.Dead(), x.t.Delivery, end.Text); err != nil {
			return result{}, err
		}
	}
	m, err := cancelMessage(x.run, end)
	if err != nil {
		return result{}, err
	}
	if _, err = x.w.conn.Write(ctx, m); err != nil {
		return unlessRefused(result{}, err)
	}
	x.w.cancels.add(x.run.Tree, x.run.Path, time.Now())
	return finished, nil
}
