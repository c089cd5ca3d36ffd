package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/internal/sandbox"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/provider"
)

// errToolTime ends a tool when its time is over.
var errToolTime = errors.New("the time of the tool is over")

// toolMargin is the time before the deadline of a tool run at which its tool is
// stopped: the time that the outcome needs to reach the caller before the
// caller stops waiting. It is at most a tenth of the time that is left.
const toolMargin = 2 * time.Second

// toolRun is the call of a tool that an execution carries out.
type toolRun struct {
	action

	x *execution
	// form is what the tool asks for, nil if it has not asked.
	form *run.Form
	// task is the task as which the tool's server goes on with this call,
	// nil if it does not.
	task *run.ServerTask
	// began is the time at which the tool was called.
	began time.Time
	// artifacts has what the run stores for its tree.
	artifacts *artifacts
	// release is called when the call is over.
	release func()
}

// action is a tool with the arguments of one call.
type action struct {
	effect run.ToolEffect
	// key is the same for every attempt at the call, and for no other call.
	key string
	// use carries out the call. If its context ends, the text is the output
	// until then, and the error says that the tool was stopped. Any other
	// error is for the model.
	use func(ctx context.Context) (string, error)
	// plan and settle are those of builtin.Tool. They are nil for a tool
	// that cannot find out whether it took effect.
	plan   func() (json.RawMessage, error)
	settle func(plan json.RawMessage) (string, builtin.Settled)
	// maxResult is the largest text that the caller's model is to read, in
	// bytes.
	maxResult int
	// reads says that the caller's model can read artifacts, as far as it
	// is known.
	reads bool
}

// runTool carries out the tool of a tool run, and publishes its outcome. A tool
// with the effect ToolOnce is carried out under an attempt on the log.
func runTool(ctx context.Context, x *execution) (result, error) {
	res, ok, err := enter(ctx, x, x.w.toolSlots)
	if !ok {
		return res, err
	}
	// The worker goes on to pull other messages while the tool is at work.
	x.w.uncount(x.t)
	if res, ok, err := mayBegin(ctx, x); !ok {
		return res, err
	}
	r := &toolRun{x: x, artifacts: newArtifacts(x.w.conn, x.run)}
	err = r.resolve()
	defer r.release()
	switch {
	case errors.Is(err, errNotServed):
		return x.releaseCall(ctx)
	case err != nil:
		return x.publishOutcome(ctx, run.Failure(run.KindError, "%v", err))
	}
	if x.state.Task != nil {
		return r.followTask(ctx)
	}
	if r.effect == run.ToolOnce {
		if res, ok, err := r.begin(ctx); !ok {
			return res, err
		}
	}
	return r.carryOut(ctx)
}

// resolve finds the tool, and makes the action. A toolset serves its own tools.
// For a built-in tool, the definition of the agent that this worker has says
// whether the agent has the tool, and where its files are.
func (r *toolRun) resolve() (err error) {
	r.release = func() {}
	in := r.x.state.Input.Tool
	if set, name, ok := toolsetOf(r.x); ok {
		return r.resolveIn(set, name)
	}
	def, ok := definitionOf(r.x)
	if !ok {
		return errNotServed
	}
	t, ok := toolOf(def, in.Name)
	if !ok {
		return fmt.Errorf("agent %q has no tool %q", def.Name, in.Name)
	}
	dir, err := prompt.Below(def.Workdir, in.Cwd)
	if err != nil {
		return err
	}
	hosts := in.AllowedHosts
	if len(hosts) == 0 {
		// The caller began under a version that did not pass them on.
		hosts = def.AllowedHosts
	}
	w := r.x.w
	call := builtin.Call{
		Arguments: provider.NewToolCall("", in.Name, in.Arguments).Arguments,
		Dir:       cmp.Or(dir, "."), Key: run.ToolKey(r.x.run),
		Hosts: hosts, Sandbox: func() builtin.Sandbox { return w.cfg.Sandbox.of(def.Sandbox, w.log) },
		Artifacts: r.artifacts, MaxResult: def.Artifacts.Limit(),
	}
	r.action = builtinAction(t, call)
	_, r.reads = toolOf(def, "read_artifact")
	return t.Check(call)
}

// definitionOf returns the definition of the agent that serves the tool of a
// tool run.
func definitionOf(x *execution) (configs.Agent, bool) {
	calling := x.run // as a run of the agent
	calling.Path, _, _, _ = x.run.Path.Parent()
	return x.w.definition(calling)
}

// toolsetOf returns the toolset that serves the tool of a tool run, and the
// tool's name there. The caller calls calls.Done.
func toolsetOf(x *execution) (set *servedToolset, name string, ok bool) {
	name = x.state.Input.Tool.Name
	if set, ok = x.w.toolsets.use(x.run.Agent.String()); ok {
		return set, name, true
	}
	server, name, own := configs.OfToolset(name)
	if !own {
		return nil, "", false
	}
	def, ok := definitionOf(x)
	if !ok {
		return nil, "", false
	}
	set, ok = x.w.toolsets.use(ownKey(def.Name, server))
	return set, name, ok
}

// resolveIn makes the action of a call of a tool of a toolset. A task needs no
// definition of its tool, which may be unknown while the server is down.
func (r *toolRun) resolveIn(set *servedToolset, name string) (err error) {
	s := r.x.state
	call := toolset.Call{Tool: name, Arguments: s.Input.Tool.Arguments, Filled: s.Filled, Task: s.Task}
	call.Key = run.ToolKey(r.x.run)
	call.CalledAt = s.CalledAt
	if _, ok := set.set.(toolset.Canceller); s.Task != nil && !ok {
		err = fmt.Errorf("the toolset %s has no tasks any more: the call may have taken effect", set.def.Name)
	} else if s.Task != nil {
		call.Filled = s.Task.Filled
		r.action = set.actionWith(taskEffect(s), call, r.artifacts)
	} else {
		r.action, err = set.action(call, r.artifacts)
	}
	r.release = set.calls.Done
	return err
}

// builtinAction returns the action of a call of a built-in tool.
func builtinAction(t builtin.Tool, c builtin.Call) action {
	a := action{
		effect: t.Effect, key: c.Key, maxResult: c.MaxResult,
		use: func(ctx context.Context) (string, error) { return t.Run(ctx, c) },
	}
	if t.Plan != nil {
		a.plan = func() (json.RawMessage, error) { return t.Plan(c) }
		a.settle = func(plan json.RawMessage) (string, builtin.Settled) { return t.Settle(c, plan) }
	}
	return a
}

// begin puts an attempt on the log. Ok is true if the last attempt on the log is
// that of this execution, which may then call the tool. The attempt of another
// worker may have taken effect. The tool may find that out. If it cannot, the
// call is unknown, unless its settings or a person ask for another attempt.
func (r *toolRun) begin(ctx context.Context) (res result, ok bool, err error) {
	x := r.x
	if last := x.state.Attempt; last != nil && !x.state.MayBeginAgain {
		if last.ID == x.attemptID {
			return result{}, true, nil
		}
		done, settled := "", builtin.Unsettled
		if r.settle != nil {
			done, settled = r.settle(last.Detail)
		}
		switch {
		case settled == builtin.Done:
			res, err = x.publishOutcome(ctx, run.Outcome{Status: run.StatusCompleted, Result: done})
			return res, false, err
		case settled == builtin.Unsettled && x.state.Input.Tool.OnUnknown != run.UnknownAgain:
			res, err = r.unknown(ctx)
			return res, false, err
		}
	}
	attempt := run.Attempt{ID: bus.NewID()}
	if r.plan != nil {
		if attempt.Detail, err = r.plan(); err != nil {
			res, err = x.publishOutcome(ctx, run.Failure(run.KindError, "%v", err))
			return res, false, err
		}
	}
	x.attemptID = attempt.ID
	res, err = x.appendEntry(ctx, run.Entry{Kind: run.EntryStarted, Attempt: &attempt})
	return res, false, err
}

// unknown ends the run whose last attempt may have taken effect, or holds it
// for a person.
func (r *toolRun) unknown(ctx context.Context) (result, error) {
	x, last := r.x, r.x.state.Attempt
	ago := x.clock().Now().Sub(x.onPresentClock(last.Time))
	end := run.EndUnknown(last.Worker, ago, r.key)
	if r.asksPerson() {
		return r.hold(ctx, run.Entry{End: &end})
	}
	return x.cancelSelf(ctx, end)
}

// unattended reports whether no person can decide about the call: none can
// answer, or the answer of none would count.
func (r *toolRun) unattended() bool {
	cfg := r.x.w.cfg
	return cfg.Unattended || cfg.Unproven && len(r.x.state.Input.Tool.Approvers) > 0
}

// asksPerson reports whether a person settles a call that may have taken
// effect. Where no person can decide, the run that made the call fails.
func (r *toolRun) asksPerson() bool {
	return r.x.state.Input.Tool.OnUnknown == run.UnknownAsk && !r.unattended()
}

// hold puts on the log that the run waits for a person. The end or the form of
// the entry says why. The entry fences every other worker: none of them begins
// the tool, and the outcome of a late original is written anew (publish).
func (r *toolRun) hold(ctx context.Context, e run.Entry) (result, error) {
	x := r.x
	e.Kind, e.Until = run.EntryHeld, x.clock().Now().Add(timeForTool(x))
	return x.appendEntry(ctx, e)
}

const (
	// maxForm bounds a form, in bytes of JSON.
	maxForm = 256 << 10
	// maxQuestion bounds the text that says why the run of a form is held,
	// in bytes. The form has the whole question.
	maxQuestion = 400
)

// holdForm holds the run until a person has filled in the form of its tool.
func (r *toolRun) holdForm(ctx context.Context) (result, error) {
	question := r.form.String()
	b, err := json.Marshal(r.form)
	switch {
	case err != nil:
		return result{}, err
	case len(b) > maxForm:
		return r.refuseForm(ctx, fmt.Sprintf(
			"the tool asks for input by a form of %d bytes, at most %d are held", len(b), maxForm))
	case r.unattended():
		return r.refuseForm(ctx, tool.NoPerson(question))
	}
	r.form.ID = bus.NewID()
	return r.hold(ctx, run.Entry{End: &run.End{Text: text.Truncate(question, maxQuestion)}, Form: r.form})
}

// refuseForm ends a call with a form that no person is to fill in. A task that
// asks is cancelled.
func (r *toolRun) refuseForm(ctx context.Context, why string) (result, error) {
	if t := r.x.state.Task; t != nil {
		cancelTask(ctx, r.x, t.ID)
	}
	return r.publish(ctx, run.Failure(run.KindError, "%s", why))
}

// carryOut calls the tool and publishes its outcome. The output of a tool that
// was stopped by the end of its run stays on the stream as a remark.
func (r *toolRun) carryOut(ctx context.Context) (result, error) {
	o, stopped := r.call(ctx)
	switch {
	case ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case stopped == nil && r.task != nil:
		return r.storeTask(ctx)
	case stopped == nil && r.form != nil:
		return r.holdForm(ctx)
	case stopped == nil && o.Kind == run.KindUnknown && r.asksPerson():
		return r.hold(ctx, run.Entry{End: new(o.End())})
	case stopped == nil:
		return r.publish(ctx, o)
	case errors.Is(stopped, errTakenOver):
		return result{}, stopped
	}
	// A cancel message, and mustFail decides.
	r.remark(ctx, o)
	return r.x.reread(), nil
}

// timeForTool returns the time that is left for the tool of a run. It ends
// shortly before the run's deadline, so that the caller still learns how.
func timeForTool(x *execution) time.Duration {
	left := x.clock().Until(x.deadline())
	return left - min(toolMargin, left/10)
}

// timeForCall returns the time that is left for a call of a tool that has taken
// some time already. The tool's own timeout bounds it, too.
func timeForCall(x *execution, taken time.Duration) time.Duration {
	left := timeForTool(x)
	if own := x.state.Input.Tool.Timeout; own > 0 {
		left = min(left, own-taken)
	}
	return left
}

// timeAllowed returns the time that the tool of a run had when it was called.
func timeAllowed(x *execution) time.Duration {
	allowed := x.header.Deadline.Sub(x.state.CalledAt)
	if own := x.state.Input.Tool.Timeout; own > 0 {
		allowed = min(allowed, own)
	}
	return allowed
}

// call calls the tool and returns its outcome. Stopped is the reason if the
// tool was stopped for another reason than its time. The outcome then has the
// output of the tool until then. If the tool asks for input, r.form has its
// form, and if it goes on as a task, r.task has the task. The outcome says
// nothing then.
func (r *toolRun) call(ctx context.Context) (o run.Outcome, stopped error) {
	x := r.x
	left := timeForCall(x, 0)
	working, done := watched(ctx, x)
	timed, stop := context.WithTimeoutCause(working, left, errToolTime)
	w, addr := x.w, x.run // the timer reads nothing of x
	slow := time.AfterFunc(progressDelay, func() {
		w.publishProgress(ctx, addr, run.Progress{Event: run.ProgressRunning, Turn: 1, Worker: w.cfg.Name})
	})
	r.began = time.Now()
	output, err := r.use(traced(timed, x, func() trace.SpanID { return trace.Tool(x.run.Path) }))
	ended := context.Cause(timed)
	timeOver := errors.Is(ended, errToolTime) || errors.Is(ended, errDeadline)
	inTime := ended == nil || timeOver && x.clock().Until(x.deadline()) > 0
	r.noteError(err)
	lost := errors.Is(err, sandbox.ErrLost) || errors.Is(err, toolset.ErrLost)
	slow.Stop()
	stop()
	done()
	switch {
	case r.task != nil:
		return run.Outcome{}, nil // the task goes on: the outcome says nothing
	case err == nil && inTime: // the tool has ended by itself
		return run.Outcome{Status: run.StatusCompleted, Result: output}, nil
	case timeOver:
		return toolTimeout(timeAllowed(x), output), nil
	case ended != nil:
		return run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled, Error: output}, ended
	case lost && r.effect == run.ToolOnce:
		return run.EndUnknown(w.cfg.Name, time.Since(r.began), r.key).Outcome(), nil
	}
	return run.Failure(run.KindError, "%v", err), nil
}

// noteError notes the form or the task of an error by which a call goes on.
func (r *toolRun) noteError(err error) {
	if asks, ok := errors.AsType[*toolset.InputError](err); ok {
		r.form = &asks.Form
	}
	if goesOn, ok := errors.AsType[*toolset.TaskError](err); ok {
		r.task = &goesOn.Task
	}
}

// toolTimeout is the outcome of a tool that was stopped at the end of the time
// that it was allowed. Output is the text that it had written until then.
func toolTimeout(allowed time.Duration, output string) run.Outcome {
	why := run.EndTimeout(allowed).Text
	if output != "" {
		why += "\n" + output
	}
	return run.Failure(run.KindTimeout, "%s", why)
}

// publish publishes the outcome of a tool that was called. Its artifacts are
// stored before it. If another worker has held the run for a person meanwhile,
// the outcome settles the call: this worker knows how its attempt ended. An
// outcome that comes later stays on the stream as a remark.
func (r *toolRun) publish(ctx context.Context, o run.Outcome) (result, error) {
	x := r.x
	o = r.keepLarge(ctx, o)
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	res, err := x.publishOutcome(ctx, o)
	if err != nil || res.done {
		return res, err
	}
	if err := x.readWithReply(ctx, res.minSeq); err != nil {
		return result{}, err
	}
	if s := x.state; s.Phase == run.Held && s.Hold.ID == x.attemptID {
		if res, err = x.publishOutcome(ctx, o); err != nil || res.done {
			return res, err
		}
	}
	own, err := storedByUs(ctx, x)
	if err == nil && !own {
		r.remark(ctx, o)
	}
	return x.reread(), err
}

// storedByUs reports whether this worker has stored the outcome of the run. The
// answer to its write may have been lost.
func storedByUs(ctx context.Context, x *execution) (bool, error) {
	reply, _ := x.replySubject()
	m, found, err := x.w.runs.OutcomeAt(ctx, x.run, reply)
	if err != nil || !found {
		return false, err
	}
	stored, err := x.w.runs.Outcome(ctx, m)
	return stored.Outcome.Worker == x.w.cfg.Name, err
}

// maxRemark bounds the text of a remark, in bytes.
const maxRemark = 16 << 10

// remark keeps an outcome that comes too late, as the return of the trigger.
func (r *toolRun) remark(ctx context.Context, o run.Outcome) {
	o.Result = text.Truncate(o.Result, maxRemark)
	o.Error = text.Truncate(o.Error, maxRemark)
	returns := returnBatch{w: r.x.w}
	returns.add(r.x.run, r.x.t.Delivery, r.x.t.begun, run.Return{Cause: run.ReturnLate, Late: &o})
	returns.store(ctx)
}
