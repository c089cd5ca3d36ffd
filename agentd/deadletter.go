package agentd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// deadLetter stores a copy of a message that could not be carried out, with the
// reason as one line. It stores no second copy if the last one on the subject
// is of the same message: a worker may have died after it. The copy also has an
// ID, by which the server drops a second one within 30 s.
func (w *Worker) deadLetter(ctx context.Context, subject string, d *bus.Delivery, reason string) error {
	letters, err := w.conn.LastPerSubject(ctx, subject)
	if err != nil {
		return err
	}
	for _, last := range letters {
		if last.Header.Get("Axe-Sequence") == strconv.FormatUint(d.Seq, 10) &&
			last.Header.Get("Axe-Subject") == d.Subject {
			return nil
		}
	}
	_, err = w.conn.Write(ctx, bus.Message{
		Subject: subject, Body: d.Body, ID: fmt.Sprintf("dead.%s.%d", d.Subject, d.Seq),
		Header: append(d.Reference(), [2]string{"Axe-Reason", strings.Join(strings.Fields(reason), " ")},
			[2]string{"Axe-Subject", d.Subject}, [2]string{"Axe-Sequence", strconv.FormatUint(d.Seq, 10)}),
	})
	if err == nil {
		w.cfg.Metrics.DeadLetter()
		w.log.ErrorContext(ctx, "dead letter stored", slog.String(keySubject, d.Subject), slog.String(keyError, reason))
	}
	return err
}

// refuseCall makes a dead letter of a call that cannot be run. Only a root has
// a reply subject that is beyond doubt, so only a root's outcome is published;
// the timer of any other caller ends its wait.
func (x *execution) refuseCall(ctx context.Context) (result, error) {
	reason := fmt.Sprintf("malformed call: %v", x.callErr)
	if err := x.w.deadLetter(ctx, x.run.Dead(), x.t.Delivery, reason); err != nil {
		return result{}, err
	}
	if !x.run.Path.IsRoot() {
		return finished, nil
	}
	return x.publishOutcome(ctx, run.Failure(run.KindError, "%s", reason))
}

// failPoisoned ends a run as poisoned, without a fold of its messages. The
// trigger becomes a dead letter.
func (w *Worker) failPoisoned(ctx context.Context, t *trigger, reason string) error {
	if err := w.deadLetter(ctx, t.at.Run.Dead(), t.Delivery, reason); err != nil {
		return err
	}
	return failUnread(ctx, w, t.at.Run, run.Failure(run.KindPoisoned, "%s", reason))
}

// failUnread ends a run without a fold of its messages. The outcome is written
// with two facts about the run: where its log ends, and its reply subject. A
// run that has an outcome keeps it. A run without a known reply subject gets
// none.
func failUnread(ctx context.Context, w *Worker, r subjects.Run, o run.Outcome) error {
	ms, err := w.conn.LastPerSubject(ctx, r.Call(), r.Log())
	if err != nil {
		return err
	}
	unread := loadedRun{w: w, run: r, callErr: errNoCall}
	for _, m := range ms {
		switch m.Subject {
		case r.Call():
			unread.header, unread.callErr = subjects.ParseCall(r, m.Header.Get)
		case r.Log():
			unread.state.LogSeq = m.Seq
		}
	}
	reply, ok := unread.replySubject()
	if errors.Is(unread.callErr, errNoCall) && !ok {
		reply, ok, err = replyOfParent(ctx, w, r)
	}
	if err != nil || !ok {
		return err
	}
	if _, there, err := w.runs.OutcomeAt(ctx, r, reply); err != nil || there {
		return err
	}
	to := outcomeTarget{
		run: r, reply: reply, fence: bus.After(r.Log(), unread.state.LogSeq), inbox: unread.header.Reply,
	}
	if r.Path.IsRoot() {
		to.disarm = r.Timer(0)
	}
	_, res, err := w.publishOutcome(ctx, to, o)
	if err == nil && !res.done {
		err = fmt.Errorf("the log of %s moved on", r)
	}
	return err
}
