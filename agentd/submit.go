package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/subjects"
)

// submitted handles the delivery of a submission.
func (w *Worker) submitted(ctx context.Context, d *bus.Delivery) {
	late, err := w.forward(ctx, d)
	switch {
	case err != nil:
		err = errors.Join(err, d.Nak(busRetryDelay))
	case !late:
		err = d.Ack()
		pause.Notify(w.forwarded)
	}
	if err != nil {
		w.log.WarnContext(ctx, "submission not forwarded", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
	}
}

// forward turns a submission into the call of a root, or into a failed result.
// A submission with a malformed subject becomes a dead letter. A second
// submission with the same id makes no second call, because the fence of the
// call refuses it. After an error the server delivers the submission again. Late
// says that the timer of the root is set later: the submission is acknowledged
// then.
func (w *Worker) forward(ctx context.Context, d *bus.Delivery) (late bool, _ error) {
	if err := w.conn.Clocks.Submissions().Settle(ctx, d); err != nil {
		return false, err
	}
	if err := awaitRoom(ctx, w); err != nil {
		return false, err
	}
	at, err := w.conn.Space().Parse(d.Subject)
	if err != nil {
		// The subject has no usable agent or id, so there is no place
		// for a result.
		key, failed := subjects.ParseTree(bus.NewID())
		if failed != nil {
			return false, failed
		}
		return false, w.deadLetter(ctx, w.conn.Space().DeadSubmission(key), d, err.Error())
	}
	r := at.Run
	if !d.ProvesSender() {
		at.By = subjects.By{}
	}
	task, err := w.conn.Load(ctx, d.Stored)
	if err != nil && !errors.Is(err, bus.ErrObjectGone) && !errors.Is(err, bus.ErrTooLarge) {
		return false, err
	}
	header, asked, invalid := w.rootHeader(r, d)
	switch {
	case invalid != nil:
	case err != nil:
		invalid = err
	case !utf8.Valid(task):
		invalid = errors.New("the task is not UTF-8 text")
	}
	if invalid != nil {
		return false, w.refuseSubmission(ctx, r, run.Failure(run.KindError, "submission refused: %v", invalid))
	}
	c, refusal, err := w.checkRoot(ctx, r, d.Count > 1)
	if errors.Is(err, run.ErrRemoved) {
		return false, failRemoved(ctx, w, r, d.Seq, err)
	}
	if err != nil {
		return false, err
	}
	if refusal != nil {
		return false, w.refuseSubmission(ctx, r, *refusal)
	}
	// The worker's own time is the longest.
	timeout := min(cmp.Or(asked, c.timeout(), w.cfg.Timeout), w.cfg.Timeout)
	if age := w.conn.MaxAge(); age > 0 && age < bus.AgeFor(timeout) {
		right := (age - age/5).Truncate(time.Second).Seconds()
		return false, w.refuseSubmission(ctx, r, run.Failure(run.KindError, keptTooShort, timeout, age, right))
	}
	dated := w.conn.Clocks.Of(r).Now()
	header.Deadline = rootDeadline(w, dated, d, timeout)
	body, err := json.Marshal(run.Input{Task: string(task), By: at.By})
	if err != nil {
		return false, err
	}
	timer := rootTimer(w, r, header.Deadline)
	timer.delivery = d
	return w.callRoot(ctx, timer, bus.Message{
		Subject: r.Call(), Header: header.Pairs(), Body: body, Fence: bus.After(r.Call(), 0), Dated: dated,
	})
}

// callRoot writes the call of a root. Late says that its timer is put off. A
// call that is there stays, and gets its timer. A call that is too large
// becomes a failed result.
func (w *Worker) callRoot(ctx context.Context, t *lateTimer, call bus.Message) (late bool, _ error) {
	r := t.run
	late = w.conn.Clocks.Of(r).Until(t.message.Timer.At) > 2*timerDelay && w.late.expect(t)
	_, err := w.conn.Write(ctx, call)
	if err != nil && late {
		w.late.take(t.message.Subject)
	}
	if _, there := errors.AsType[*bus.ConflictError](err); there {
		return false, w.setRootTimer(ctx, r)
	}
	if errors.Is(err, bus.ErrTooLarge) {
		return false, w.refuseSubmission(ctx, r, run.Failure(run.KindError, "%v", err))
	}
	if err != nil {
		return false, err
	}
	w.warnUnserved(ctx, r)
	if late {
		w.late.putOffExpected(t)
		return true, nil
	}
	return false, t.write(ctx, w)
}

// rootHeader returns the header of a root's call, without the deadline, and the
// time that the submission asks for, 0 if it asks for none. The headers of a
// submission are from outside. They can only narrow: its budget lies within the
// agent's.
func (w *Worker) rootHeader(r subjects.Run, d *bus.Delivery) (_ subjects.Header, asked time.Duration, _ error) {
	scopes, err := subjects.ParseScopes(d.Header.Get(subjects.HeaderLimits), subjects.Root)
	if err != nil {
		return subjects.Header{}, 0, err
	}
	if asked, err = submittedTimeout(d); err != nil {
		return subjects.Header{}, 0, err
	}
	return subjects.Header{
		Tree: r.Tree, Path: subjects.Root, MaxDepth: subjects.MaxDepth, Scopes: scopes,
		Reply: r.Space.Result(r.Agent, r.Tree), Traceparent: trace.Valid(d.Header.Get(subjects.HeaderTraceparent)),
	}, asked, nil
}

// keptTooShort is the text of the refusal of a tree that may take longer than
// the stream keeps its messages.
const keptTooShort = "submission refused: the tree may take %s and its messages are kept for %s; " +
	"submit it with a shorter time (" + subjects.HeaderTimeout + ": %.0f), or start a worker with a longer --keep"

// roomInterval is the time between two checks whether a new tree may begin.
const roomInterval = time.Second

// awaitRoom waits while no new tree may begin (bus.Health.Room), until the
// worker drains. A submission without room stays on its stream.
func awaitRoom(ctx context.Context, w *Worker) error {
	for errors.Is(w.conn.Health.Room(ctx), bus.ErrNoRoom) {
		if err := pause.AtMost(ctx, roomInterval, w.drainBegun); err != nil {
			return err
		}
		if w.draining.Load() {
			return errDraining
		}
	}
	return nil
}

// rootDeadline returns the deadline of a root. Now is the present time of the
// root's stream. The timeout counts from the moment at which the submission was
// stored.
func rootDeadline(w *Worker, now time.Time, d *bus.Delivery, timeout time.Duration) time.Time {
	// The time that the submission has waited counts. It is reckoned in the
	// time of its own stream, and the deadline in that of the run's stream.
	submissions := w.conn.Clocks.Submissions()
	waited := submissions.Now().Sub(d.Time.Add(submissions.Shift(d.Stored)))
	return now.Add(timeout - max(0, waited))
}

// submittedTimeout returns the time that a submission asks for, counted from
// the moment at which it was stored, 0 if it asks for none. It reads
// Axe-Timeout or, without that, Axe-Deadline. A submitter needs the server's
// clock for the second. Workers of an earlier version read Axe-Deadline alone,
// so a submission may have both.
func submittedTimeout(d *bus.Delivery) (time.Duration, error) {
	if s := d.Header.Get(subjects.HeaderTimeout); s != "" {
		return subjects.ParseTimeout(s)
	}
	s := d.Header.Get(subjects.HeaderDeadline)
	if s == "" {
		return 0, nil
	}
	at, err := subjects.ParseDeadline(s)
	if err != nil {
		return 0, err
	}
	timeout := at.Sub(d.Time)
	if timeout > 0 && timeout <= subjects.MaxTimeout {
		return timeout, nil
	}
	what := "has passed"
	if timeout > 0 {
		what = "is too far away"
	}
	return 0, fmt.Errorf("%s %s %s: the server stored the submission at %s; send %s instead, for example 120",
		subjects.HeaderDeadline, subjects.FormatDeadline(at), what, subjects.FormatDeadline(d.Time),
		subjects.HeaderTimeout)
}

// checkRoot returns the card of a root's agent, and the outcome of a root that
// cannot be called. The outcome is nil if the root can be called: a worker
// serves its agent, and no other agent's tree has its id. Again says that the
// submission was delivered before: then the error wraps run.ErrRemoved if the
// root was called and its call was removed.
func (w *Worker) checkRoot(ctx context.Context, r subjects.Run, again bool) (Card, *run.Outcome, error) {
	c, ok, err := w.directory.find(ctx, r.Agent.String())
	if err != nil {
		return c, nil, err
	}
	if !ok || c.CallProblem() != "" {
		return c, new(notServed(r.Agent.String(), c)), nil
	}
	roots, err := bus.MessagePerSubject(ctx, w.conn, r.Space.CallOf(r.Tree, subjects.Root))
	if err != nil {
		return c, nil, err
	}
	for _, m := range roots {
		if m.Subject != r.Call() {
			taken := fmt.Sprintf("submission refused: id %s is that of another agent's tree", r.Tree)
			return c, new(run.Failure(run.KindError, "%s", taken)), nil
		}
	}
	if again && len(roots) == 0 {
		return c, nil, checkNotRemoved(ctx, w, r)
	}
	return c, nil, nil
}

// setRootTimer sets the timer of a root that was called before. The worker that
// stored the call may have died before it set the timer. A replica may lag
// behind the call.
func (w *Worker) setRootTimer(ctx context.Context, r subjects.Run) error {
	var call bus.Stored
	err := history.CatchUp(ctx, func(ctx context.Context) (there bool, err error) {
		call, there, err = w.conn.First(ctx, r.Call())
		return there, err
	}, "%s", r.Call())
	if err != nil {
		return err
	}
	deadline, err := subjects.ParseDeadline(call.Header.Get(subjects.HeaderDeadline))
	if err != nil {
		return nil //nolint:nilerr // a malformed call is refused where it is served
	}
	deadline = deadline.Add(w.conn.Clocks.Of(r).Shift(call))
	return rootTimer(w, r, deadline).write(ctx, w)
}

// refuseSubmission writes the failed result of a submission that never becomes
// a run. It writes none if the root was called, by an earlier submission with
// the same id or at an earlier delivery. The root then gets its timer.
func (w *Worker) refuseSubmission(ctx context.Context, r subjects.Run, o run.Outcome) error {
	_, res, err := w.publishOutcome(ctx, outcomeTarget{
		run: r, reply: r.Space.Result(r.Agent, r.Tree), fence: bus.After(r.Call(), 0),
	}, o)
	if err == nil && res.conflict {
		return w.setRootTimer(ctx, r)
	}
	return err
}
