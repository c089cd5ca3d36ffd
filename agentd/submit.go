package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// submitted makes a task from outside the call of a root, or a failed result.
// The same id again changes nothing: the call is there.
func (w *Worker) submitted(ctx context.Context, d *bus.Delivery) {
	err := w.forward(ctx, d)
	if err == nil {
		err = d.Ack()
	} else {
		err = errors.Join(err, d.Nak(busRetryDelay))
	}
	if err != nil {
		w.log.WarnContext(ctx, "submission", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
	}
}

func (w *Worker) forward(ctx context.Context, d *bus.Delivery) error {
	at, err := w.conn.Space().Parse(d.Subject)
	if err != nil {
		return w.buryTask(ctx, d, err.Error())
	}
	text, err := w.conn.Load(ctx, d.Stored)
	if err != nil && !errors.Is(err, bus.ErrObjectGone) && !errors.Is(err, bus.ErrTooLarge) {
		return err
	}
	limits, wrong := subjects.ParseScopes(d.Header.Get(subjects.HeaderLimits), subjects.Root)
	if wrong != nil {
		return w.refuse(ctx, at.Run, run.Failure(run.KindError, "submission refused: %v", wrong))
	}
	refusal, deadline, failed := w.check(ctx, at.Run, d, text, err)
	if failed != nil {
		return failed
	}
	if refusal.Status != "" {
		return w.refuse(ctx, at.Run, refusal)
	}
	head := subjects.Header{
		Tree: at.Run.Tree, Path: subjects.Root, MaxDepth: subjects.MaxDepth, Deadline: deadline,
		Reply: at.Run.Space.Result(
			at.Run.Agent,
			at.Run.Tree,
		), Scopes: limits, Traceparent: d.Header.Get(subjects.HeaderTraceparent),
	}
	body, err := json.Marshal(run.Input{Task: string(text)})
	if err != nil {
		return err
	}
	call := bus.Message{Subject: at.Run.Call(), Header: head.Pairs(), Body: body, Fence: bus.After(at.Run.Call(), 0)}
	_, err = w.conn.Write(ctx, call)
	if _, twice := errors.AsType[*bus.ConflictError](err); twice {
		return w.armRoot(ctx, at.Run)
	}
	if errors.Is(err, bus.ErrTooLarge) {
		return w.refuse(ctx, at.Run, run.Failure(run.KindError, "%v", err))
	}
	if err != nil {
		return err
	}
	return w.writeAll(ctx, []bus.Message{timer(at.Run, 0, deadline)})
}

// armRoot sets the timer of a root that is there already: who stored its call
// may have died before.
func (w *Worker) armRoot(ctx context.Context, r subjects.Run) error {
	call, ok, err := w.conn.First(ctx, r.Call())
	if err != nil || !ok {
		return err
	}
	deadline, err := subjects.ParseDeadline(call.Header.Get(subjects.HeaderDeadline))
	if err != nil {
		return nil //nolint:nilerr // a malformed call is refused where it is served
	}
	return w.writeAll(ctx, []bus.Message{timer(r, 0, deadline)})
}

// check validates a submission. Its headers are from outside: a deadline is
// believed only if it is narrower than the worker's own limit. (So are bounds
// on the tree: they can but narrow the agent's own.)
func (w *Worker) check(
	ctx context.Context,
	r subjects.Run,
	d *bus.Delivery,
	text []byte,
	loaded error,
) (refusal run.Outcome, deadline time.Time, _ error) {
	deadline = d.Time.Add(w.cfg.Timeout)
	if s := d.Header.Get(subjects.HeaderDeadline); s != "" {
		at, err := subjects.ParseDeadline(s)
		if err != nil {
			return run.Failure(run.KindError, "submission refused: %v", err), deadline, nil
		}
		if at.Before(deadline) {
			deadline = at
		}
	}
	switch {
	case loaded != nil:
		return run.Failure(run.KindError, "submission refused: %v", loaded), deadline, nil
	case !utf8.Valid(text):
		return run.Failure(run.KindError, "submission refused: the task is not UTF-8 text"), deadline, nil
	}
	c, ok, err := w.directory.find(ctx, r.Agent.String())
	if err != nil {
		return run.Outcome{}, deadline, err
	}
	if !ok || c.Problem != "" {
		return refused(r.Agent.String(), c), deadline, nil
	}
	other, err := w.conn.LastPerSubject(ctx, r.Space.RootCallOf(r.Tree))
	if err != nil {
		return run.Outcome{}, deadline, err
	}
	for _, m := range other {
		if m.Subject != r.Call() {
			return run.Failure(
				run.KindError,
				"submission refused: id %s is that of another agent's tree",
				r.Tree,
			), deadline, nil
		}
	}
	return run.Outcome{}, deadline, nil
}

// refuse writes the failed result of a submission that never became a run.
func (w *Worker) refuse(ctx context.Context, r subjects.Run, o run.Outcome) error {
	w.log.InfoContext(ctx, "submission refused", slog.String(keyRun, r.String()), slog.String(keyError, o.Error))
	o.Agent, o.Tree, o.Path, o.Worker = r.Agent.String(), r.Tree.String(), r.Path.String(), w.cfg.Name
	_, err := w.publishOutcome(ctx, r, r.Space.Result(r.Agent, r.Tree), 0, "", o, "")
	return err
}

// buryTask copies a submission without a usable agent or id to the dead
// letters.
func (w *Worker) buryTask(ctx context.Context, d *bus.Delivery, why string) error {
	key, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		return err
	}
	return w.deadLetter(ctx, w.conn.Space().DeadSubmission(key), d, why)
}

func tooLarge(err error) bool { return errors.Is(err, bus.ErrTooLarge) }
