package agentd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/internal/toolset"
)

// A task goes on at the server of a tool, while no worker waits. The log has
// its id, and the run's own timer polls it: each firing is one request, by any
// worker that serves the toolset. A poll of a task that is still at work writes
// nothing but the timer of the next poll. Its time follows from the clock, the
// entry and the server's answer, so that the log does not grow.

const (
	// pollTime bounds a poll.
	pollTime = 20 * time.Second
	// cancelTaskTime bounds the request to end a task.
	cancelTaskTime = 5 * time.Second
)

// taskEffect is the effect of a tool with a task at its server. An attempt is
// on the log if the effect may happen once.
func taskEffect(s run.State) run.ToolEffect {
	if s.Attempt != nil {
		return run.ToolOnce
	}
	return run.ToolReads
}

// storeTask puts a task that the server has just made on the log. A worker that
// finds the log moved on cannot go on with the task, and ends it. It does not
// if the log has the same task: the answer to its write was lost, or another
// attempt has found the task that the first one made.
func (r *toolRun) storeTask(ctx context.Context) (result, error) {
	x := r.x
	until := x.clock().Now().Add(timeForCall(x, time.Since(r.began)))
	res, err := x.appendEntry(ctx, run.Entry{Kind: run.EntryTask, Task: r.task, Until: until})
	if err != nil || !res.conflict {
		return res, err
	}
	if res.minSeq > x.state.Seq {
		if err := x.readWithReply(ctx, res.minSeq); err != nil {
			return result{}, err
		}
		res = x.reread()
	}
	if t := x.state.Task; t == nil || t.ID != r.task.ID {
		cancelTask(ctx, x, r.task.ID)
	}
	return res, nil
}

// awaitTask sets the timer of the next poll. It polls at once if a person has
// answered the task.
func awaitTask(ctx context.Context, x *execution) (result, error) {
	if x.state.Task.Filled != nil {
		return runTool(ctx, x)
	}
	return finished, setPoll(ctx, x, x.state.Task.ServerTask)
}

// setPoll sets the timer of the next poll of a task, no later than the end of
// the wait.
func setPoll(ctx context.Context, x *execution, t run.ServerTask) error {
	at := t.NextPoll(x.onPresentClock(x.state.Task.Since), x.clock().Now())
	if end, _ := taskEnd(x, t); end.Before(at) {
		at = end
	}
	return x.w.writeAll(ctx, []bus.Message{timer(x.run, 0, at)})
}

// taskEnd is the end of the wait for a task: the end of the run's own time, or
// that of the time for which the server keeps the task.
func taskEnd(x *execution, t run.ServerTask) (end time.Time, expires bool) {
	end = x.onPresentClock(x.state.Task.Until)
	if expiry := x.onPresentClock(x.state.Task.Since).Add(t.TTL); t.TTL > 0 && expiry.Before(end) {
		return expiry, true
	}
	return end, false
}

// followTask polls the task of the run once, and gives the server the answers
// of a person first. The end of the task is the outcome of the run.
func (r *toolRun) followTask(ctx context.Context) (result, error) {
	x := r.x
	working, done := watched(ctx, x)
	timed, stop := context.WithTimeoutCause(working, pollTime, errToolTime)
	output, err := r.use(timed)
	stopped := context.Cause(working)
	stop()
	done()
	r.noteError(err)
	switch {
	case ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case errors.Is(stopped, errTakenOver):
		return result{}, stopped
	case stopped != nil && !errors.Is(stopped, errDeadline): // mustFail decides
		return x.reread(), nil
	case r.task != nil:
		return r.pollAgain(ctx, err)
	case r.form != nil:
		return r.holdForm(ctx)
	case errors.Is(err, toolset.ErrForgotten) && r.effect == run.ToolOnce:
		end := run.EndForgotten(r.key)
		if r.asksPerson() {
			return r.hold(ctx, run.Entry{End: &end})
		}
		return r.publish(ctx, end.Outcome())
	case err != nil:
		return r.publish(ctx, run.Failure(run.KindError, "%v", err))
	}
	return r.publish(ctx, run.Outcome{Status: run.StatusCompleted, Result: output})
}

// pollAgain sets the timer of the next poll of a task that goes on. At the end
// of the wait it ends the task instead. A task that has got answers has an
// entry first.
func (r *toolRun) pollAgain(ctx context.Context, goesOn error) (result, error) {
	x := r.x
	poll, _ := errors.AsType[*toolset.TaskError](goesOn)
	end, expires := taskEnd(x, poll.Task)
	passed, err := x.clock().Passed(ctx, end.Add(-earlyBy))
	switch {
	case err != nil:
		return result{}, err
	case passed:
		return r.endTask(ctx, poll, expires)
	case x.state.Task.Filled != nil && poll.Why == nil:
		e := run.Entry{Kind: run.EntryTask, Task: &poll.Task, Until: x.onPresentClock(x.state.Task.Until)}
		if res, err := x.appendEntry(ctx, e); err != nil || res.conflict {
			return res, err
		}
	case poll.Why != nil:
		x.w.log.DebugContext(ctx, "task of a tool not reached",
			runAttr(x.run), slog.Any(keyError, poll.Why))
	}
	return finished, setPoll(ctx, x, poll.Task)
}

// endTask ends a task at the end of the wait for it, and publishes the timeout.
func (r *toolRun) endTask(ctx context.Context, poll *toolset.TaskError, expires bool) (result, error) {
	x := r.x
	cancelTask(ctx, x, poll.Task.ID)
	why := run.EndTimeout(timeAllowed(x)).Text
	if expires {
		why = tool.TaskExpired(poll.Task.TTL)
	}
	return r.publish(ctx, run.Failure(run.KindTimeout, "%s", tool.TaskCancelled(why, poll.Why)))
}

// cancelTask asks the server of a tool run to end a task. It does not wait for
// the end. A server that is not reached, or does not end the task, is not asked
// again. Before the deadline of a run that has not ended, half of the time that
// is left stays for its outcome.
func cancelTask(ctx context.Context, x *execution, id string) {
	log := x.w.log.With(runAttr(x.run))
	err := errNotServed
	if set, _, ok := toolsetOf(x); ok {
		defer set.calls.Done()
		within := cancelTaskTime
		if left := x.clock().Until(x.deadline()); left > 0 && !x.state.Ended() {
			within = min(within, left/2)
		}
		limited, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if server, ok := set.set.(toolset.Canceller); ok {
			err = server.CancelTask(limited, id)
		}
	}
	if err != nil {
		log.WarnContext(ctx, "task of a tool not cancelled", slog.Any(keyError, err))
	}
}
