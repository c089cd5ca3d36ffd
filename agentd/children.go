package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// The messages that a run sends to other runs, and its timers. Their subjects
// follow from the run's log, so a second write changes nothing.

// callChildren publishes, together, the calls that are due, the timer of the
// turn, and the messages for which the turn does not wait: forks, mail and
// kills. If the timer may come later, the execution keeps it (execution.late).
func callChildren(ctx context.Context, x *execution, e run.CallChildren) error {
	var out outbox
	x.addUnawaited(&out, e)
	for _, c := range e.Children {
		m, _, err := x.callMessage(e.Turn, c)
		out.add(m, err)
	}
	switch {
	case e.Timer.IsZero() || x.coveredByOwnTimer(e.Timer):
	case mayPutOff(x, e.Timer):
		x.late = turnTimer(x, e.Turn, e.Timer)
	default:
		out.add(timer(x.run, e.Turn, x.onPresentClock(e.Timer)), nil)
	}
	if err := out.write(ctx, x.w); err != nil {
		return err
	}
	for _, c := range slices.Concat(e.Children, e.Forks) {
		if child, err := x.run.At(c.Call.Agent, x.run.Path.Child(e.Turn, c.Index)); err == nil {
			x.w.warnUnserved(ctx, child)
		}
	}
	return nil
}

// addUnawaited adds the messages of a turn for which the turn does not wait.
func (r *loadedRun) addUnawaited(out *outbox, e run.CallChildren) {
	for _, c := range e.Forks {
		call, child, err := r.callMessage(e.Turn, c)
		out.add(call, err)
		out.add(timer(child, 0, r.onPresentClock(c.Deadline)), nil)
	}
	for _, c := range e.Posts {
		to, err := r.run.At(c.Call.Agent, c.Call.To)
		out.fail(err)
		mail := run.Mail{From: r.run.Path.String(), Text: c.Call.Task}
		out.add(mailMessage(to, r.run.Path.MailKey(e.Turn, c.Index), mail))
	}
	for _, c := range e.Kills {
		to, err := r.run.At(c.Call.Agent, c.Call.To)
		out.fail(err)
		out.add(cancelMessage(to, run.EndKilled(r.run.Path.String())))
	}
}

// outbox collects messages for one WriteAll, which is not atomic. After an
// error in making a message it writes none of them.
type outbox struct {
	ms []bus.Message
	// err is the first error in making a message.
	err error
}

func (o *outbox) fail(err error) { o.err = cmp.Or(o.err, err) }

func (o *outbox) add(m bus.Message, err error) {
	o.fail(err)
	o.ms = append(o.ms, m)
}

func (o *outbox) write(ctx context.Context, w *Worker) error {
	if o.err != nil {
		return o.err
	}
	return w.writeAll(ctx, o.ms)
}

// callMessage returns the call of a child, and the child.
func (r *loadedRun) callMessage(turn int, c run.Child) (m bus.Message, child subjects.Run, err error) {
	if child, err = r.run.At(c.Call.Agent, r.run.Path.Child(turn, c.Index)); err != nil {
		return m, child, err
	}
	call := c.Call
	if call.Op == run.OpReview {
		call.Task = tool.Review(r.run, r.state) // it follows from the run
	}
	start := r.state.Start()
	body, err := json.Marshal(start.InputFor(call))
	depth := r.header.Depth + 1
	header := subjects.Header{
		Tree: child.Tree, Path: child.Path, Parent: r.run.Agent,
		Depth: depth, MaxDepth: max(start.MaxDepth, depth), Deadline: c.Deadline,
		Reply: r.run.Reply(turn, c.Index), Scopes: start.Scopes, Traceparent: r.header.Traceparent,
	}
	subject := child.Call()
	if call.Op == run.OpTool {
		subject = child.ToolCall()
		header.MaxDepth = start.MaxDepth
		header.Scopes = nil // the caller has counted it
	}
	m = bus.Message{
		Subject: subject, Header: header.Pairs(), Body: body, Fence: bus.After(subject, 0),
		Dated: r.dated(),
	}
	return m, child, err
}

// mailMessage returns a message to a run's inbox. Its key follows from the log
// of its writer.
func mailMessage(to subjects.Run, k subjects.Key, m run.Mail) (bus.Message, error) {
	body, err := json.Marshal(m)
	return bus.Message{Subject: to.Mail(k), Body: body, Fence: bus.First(to.Mail(k)), Header: schema()}, err
}

// cancelMessage returns the message that ends a run.
func cancelMessage(r subjects.Run, end run.End) (bus.Message, error) {
	body, err := json.Marshal(end)
	return bus.Message{Subject: r.Cancel(), Body: body, Fence: bus.First(r.Cancel())}, err
}

// coveredByOwnTimer reports whether a wait until at, a time of state, lasts to
// the deadline of a run that has its own timer, or longer. That timer then
// serves for both.
func (r *loadedRun) coveredByOwnTimer(at time.Time) bool {
	return r.hasOwnTimer() && !at.Before(r.header.Deadline)
}

// writeAll stores messages. Their subjects follow from the log, so a message
// that is there already was stored by an earlier attempt.
func (w *Worker) writeAll(ctx context.Context, ms []bus.Message) error {
	var failed []error
	for _, err := range w.conn.WriteAll(ctx, ms) {
		failed = append(failed, unlessThere(err))
	}
	return errors.Join(failed...)
}

// unlessThere returns the error of a write, nil if the message was there.
func unlessThere(err error) error {
	if _, there := errors.AsType[*bus.ConflictError](err); there {
		return nil
	}
	return err
}

// stopBelow writes the cancel messages of the children and forks of a run that
// was interrupted, or has ended. It does not wait for their ends. If the run
// does, a timer bounds the wait.
func (r *loadedRun) stopBelow(ctx context.Context, e run.StopBelow) error {
	var out outbox
	for _, c := range e.Below {
		child, err := r.run.At(c.Call.Agent, r.run.Path.Child(c.Turn, c.Index))
		out.fail(err)
		out.add(cancelMessage(child, e.End))
	}
	if err := out.write(ctx, r.w); err != nil || e.Timer.IsZero() {
		return err
	}
	return r.w.writeAll(ctx, []bus.Message{timer(r.run, e.Turn, r.onPresentClock(e.Timer))})
}

// notifyIdle tells the parent of a fork that the fork is idle. An idle root has
// no parent to tell. A child that was called can become idle too, for example
// by an interrupt. Its parent is not told. Only the timer of the parent's turn
// bounds such a child until then, so it gets a timer for its own deadline.
func (r *loadedRun) notifyIdle(ctx context.Context, e run.NotifyIdle) error {
	if !r.hasOwnTimer() {
		return r.w.writeAll(ctx, []bus.Message{timer(r.run, 0, r.deadline())})
	}
	path, _, _, hasParent := r.run.Path.Parent()
	if !hasParent {
		return nil
	}
	text, err := json.Marshal(tool.Completed(r.state))
	if err != nil {
		return err
	}
	subtree := r.state.Subtree()
	notice := run.Mail{From: r.run.Path.String(), Text: string(text), Idle: true, Subtree: &subtree, Seen: e.Seen}
	parent := r.run.Space.Run(r.header.Parent, r.run.Tree, path)
	var out outbox
	out.add(mailMessage(parent, r.run.Path.IdleKey(e.Turn), notice))
	return out.write(ctx, r.w)
}
