package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// errToolTime ends a tool when its time is over.
var errToolTime = errors.New("the time of the tool is over")

// toolMargin is the time before the deadline of a tool run at which its tool is
// stopped: the time that the outcome needs to reach the caller before the caller
// stops waiting. It is at most a tenth of the time that is left.
const toolMargin = 2 * time.Second

// runTool carries out the tool of a tool run, and publishes its outcome. A tool
// whose effect may happen once is carried out under an attempt on the log. An
// attempt of another execution says that the tool may have taken effect.
func (x *execution) runTool(ctx context.Context) (result, error) {
	res, ok, err := x.enter(ctx, x.w.toolSlots)
	if !ok {
		return res, err
	}
	// The worker goes on to pull other messages while the tool is at work.
	x.w.uncount(x.t)
	if res, ok, err := x.mayBegin(ctx); !ok {
		return res, err
	}
	t, c, err := x.tool()
	switch {
	case errors.Is(err, errNotServed):
		return x.releaseCall(ctx)
	case err != nil:
		return x.publishOutcome(ctx, run.Failure(run.KindError, "%v", err))
	}
	if t.Effect == run.ToolOnce {
		if res, ok, err := x.beginOnce(ctx, t, c); !ok {
			return res, err
		}
	}
	return x.callTool(ctx, t, c)
}

// tool returns the tool of a tool run, and the call. The definition of the
// agent that this worker has says whether the agent has the tool, and where its
// files are.
func (x *execution) tool() (builtin.Tool, builtin.Call, error) {
	in := x.state.Input.Tool
	def, ok := x.w.definition(caller(x.run))
	if !ok {
		return builtin.Tool{}, builtin.Call{}, errNotServed
	}
	t, ok := builtin.Find(in.Name)
	if !ok || !slices.Contains(def.Tools, in.Name) {
		return t, builtin.Call{}, fmt.Errorf("agent %q has no tool %q", def.Name, in.Name)
	}
	t.Effect = cmp.Or(run.ToolEffect(def.ToolConf[in.Name].Effect), t.Effect)
	dir, err := prompt.Below(def.Workdir, in.Cwd)
	if err != nil {
		return t, builtin.Call{}, err
	}
	c := builtin.Call{
		Arguments: provider.NewToolCall("", in.Name, in.Arguments).Arguments,
		Dir:       cmp.Or(dir, "."), Key: toolKey(x.run), Sandbox: x.w.cfg.Sandbox.of(def),
	}
	return t, c, t.Check(c)
}

// caller returns the run that calls a tool run, as a run of the same agent.
func caller(r subjects.Run) subjects.Run {
	r.Path, _, _, _ = r.Path.Parent()
	return r
}

// toolKey is the same for every attempt at a call of a tool, and for no other
// call: it is the address of the call.
func toolKey(r subjects.Run) string { return r.Tree.String() + "." + r.Path.String() }

// beginOnce puts an attempt on the log before a tool is carried out whose effect
// may happen once. It returns true if the log shows the attempt of this
// execution. The attempt of another one may have taken effect. If the tool
// cannot find that out, the run ends as unknown.
func (x *execution) beginOnce(ctx context.Context, t builtin.Tool, c builtin.Call) (res result, ok bool, err error) {
	if last := x.state.Attempt; last != nil {
		if last.ID == x.attemptID {
			return result{}, true, nil
		}
		text, settled := "", builtin.Unsettled
		if t.Settle != nil {
			text, settled = t.Settle(c, last.Detail)
		}
		switch {
		case settled == builtin.Done:
			res, err = x.publishOutcome(ctx, run.Outcome{Status: run.StatusCompleted, Result: text})
			return res, false, err
		case settled == builtin.Unsettled && x.state.Input.Tool.OnUnknown != run.UnknownAgain:
			res, err = x.cancelSelf(ctx, run.EndUnknown(last.Worker, x.clock().Now().Sub(last.Time), c.Key))
			return res, false, err
		}
	}
	attempt := run.Attempt{ID: bus.NewID()}
	if t.Plan != nil {
		if attempt.Detail, err = t.Plan(c); err != nil {
			res, err = x.publishOutcome(ctx, run.Failure(run.KindError, "%v", err))
			return res, false, err
		}
	}
	x.attemptID = attempt.ID
	res, err = x.appendEntry(ctx, run.Entry{Kind: run.EntryStarted, Attempt: &attempt})
	return res, false, err
}

// callTool calls a tool and publishes its outcome. The output of a tool that was
// stopped by the end of its run stays on the stream as a remark.
func (x *execution) callTool(ctx context.Context, t builtin.Tool, c builtin.Call) (result, error) {
	left := x.clock().Until(x.deadline())
	left -= min(toolMargin, left/10)
	o, stopped := x.useTool(ctx, t, c, left)
	switch {
	case ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case errors.Is(stopped, errTakenOver):
		return result{}, stopped
	case stopped != nil: // a cancel message
		x.remark(ctx, o)
		return x.reread(), nil // mustFail decides
	}
	return x.publishTool(ctx, o)
}

// useTool calls a tool, for at most the time that is left, and returns its
// outcome. Stopped is the reason if the tool was stopped for another reason than
// its time. The outcome then has the output of the tool until then.
func (x *execution) useTool(
	ctx context.Context, t builtin.Tool, c builtin.Call, left time.Duration,
) (o run.Outcome, stopped error) {
	working, done := x.watched(ctx)
	timed, stop := context.WithTimeoutCause(working, left, errToolTime)
	w, r := x.w, x.run // the timer reads nothing of x
	slow := time.AfterFunc(progressDelay, func() {
		w.publishProgress(ctx, r, run.Progress{Event: run.ProgressRunning, Turn: 1, Worker: w.cfg.Name})
	})
	text, err := t.Run(timed, c)
	ended := context.Cause(timed)
	slow.Stop()
	stop()
	done()
	switch {
	case errors.Is(ended, errToolTime), errors.Is(ended, errDeadline):
		return toolTimeout(left, text), nil
	case ended != nil:
		return run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled, Error: text}, ended
	case err != nil:
		return run.Failure(run.KindError, "%v", err), nil
	}
	return run.Outcome{Status: run.StatusCompleted, Result: text}, nil
}

// toolTimeout is the outcome of a tool that was stopped after a time. Output is
// what it had written until then.
func toolTimeout(after time.Duration, output string) run.Outcome {
	text := run.EndTimeout(after).Text
	if output != "" {
		text += "\n" + output
	}
	return run.Failure(run.KindTimeout, "%s", text)
}

// publishTool publishes the outcome of a tool that was called. An outcome that
// comes too late stays on the stream as a remark.
func (x *execution) publishTool(ctx context.Context, o run.Outcome) (result, error) {
	res, err := x.publishOutcome(ctx, o)
	if err == nil && res.conflict {
		x.remark(ctx, o)
	}
	return res, err
}

// maxRemark bounds the text of a remark, in bytes.
const maxRemark = 16 << 10

// remark keeps an outcome that comes too late, as the return of the trigger.
func (x *execution) remark(ctx context.Context, o run.Outcome) {
	o.Result = o.Result[:min(len(o.Result), maxRemark)]
	o.Error = o.Error[:min(len(o.Error), maxRemark)]
	returns := returnBatch{w: x.w}
	returns.add(x.run, x.t.Delivery, run.Return{Cause: run.ReturnLate, Late: &o})
	returns.store(ctx)
}
