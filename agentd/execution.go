package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	stored "github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/subjects"
)

// step is what came of carrying something out: the run owes nothing more under
// this trigger, or there is a message to read first.
type step struct {
	done    bool
	must    uint64
	refused bool // a write was, by that message
}

var finished = step{done: true}

// after is the step after a write that was refused.
func after(refused *bus.ConflictError) step { return step{must: refused.Last, refused: true} }

// handle reads once for a batch of triggers, acknowledges those that own
// nothing and acts on those that do. After an error nothing is known of the
// run.
func (w *Worker) handle(ctx context.Context, h *history, batch []*trigger) error {
	if batch = w.inTime(batch); len(batch) == 0 {
		return nil
	}
	if err := w.readFor(ctx, h, batch); err != nil {
		for _, t := range batch {
			w.unread(ctx, h, t, err)
		}
		return err
	}
	var owners []*trigger
	for _, t := range batch {
		if w.owes(h, t) {
			owners = append(owners, t)
		} else {
			w.rememberAgain(ctx, h, t)
			w.acknowledge(ctx, t)
		}
	}
	var failed error
	for _, t := range owners {
		if err := w.act(ctx, h, t); err != nil {
			failed = err
			w.retryLater(ctx, t, err)
			continue
		}
		w.acknowledge(ctx, t)
	}
	return failed
}

// readFor reads what a batch of triggers needs. Where the run is idle, or they
// may be the last that it waits for, its reply subject is looked at as well: it
// goes on then.
func (w *Worker) readFor(ctx context.Context, h *history, batch []*trigger) error {
	if err := w.cancels.waitLoaded(ctx, h.run); err != nil {
		return err
	}
	must, err := w.mustRead(ctx, h, batch)
	if err != nil {
		return err
	}
	if h.state.Phase == run.Idle || h.state.Phase == run.Awaiting && h.state.OutcomesAwaited() <= countOutcomes(batch) {
		return w.readOn(ctx, h, must)
	}
	return w.read(ctx, h, must)
}

// inTime leaves out the triggers that have waited here for longer than their
// leases, while the server heard nothing of this process: they come again, to
// whoever asks, and another worker may have them already.
func (w *Worker) inTime(batch []*trigger) []*trigger {
	return slices.DeleteFunc(batch, func(t *trigger) bool {
		late := t.LeaseExpired()
		if late {
			w.release(t)
		}
		return late
	})
}

// mustRead is the message that a read for these triggers has to contain: the
// last of them and, where a follower may lag, all that was stored when a call
// or a redelivered message was delivered.
func (w *Worker) mustRead(ctx context.Context, h *history, batch []*trigger) (uint64, error) {
	var must uint64
	var leader bool
	for _, t := range batch {
		must = max(must, t.Seq)
		leader = leader || t.Count > 1 || t.at.Kind == subjects.Call
		if t.at.Kind == subjects.Call && h.state.Seq == 0 {
			h.call, h.fresh = t.Stored, t.ProvablyFirst()
			h.head, h.bad = subjects.ParseCall(h.run, t.Header.Get)
		}
	}
	if !leader || w.conn.Replicas() <= 1 {
		return must, nil
	}
	last, err := w.conn.LastSeq(ctx, h.run.All())
	return max(must, last), err
}

// owes reports whether the run owes something to the trigger's holder.
func (w *Worker) owes(h *history, t *trigger) bool {
	if h.state.OutcomeStored || h.state.Phase == run.None {
		return false
	}
	return (h.state.Owner == t.Seq || expired(t)) && len(h.state.Outstanding()) > 0
}

// expired reports whether a trigger is the run's own deadline.
func expired(t *trigger) bool { return t.at.Kind == subjects.Timer && t.at.Turn == 0 }

// unread is what becomes of a trigger whose run could not be read: a corrupt
// one is ended, anything else may be better next time.
func (w *Worker) unread(ctx context.Context, h *history, t *trigger, err error) {
	if errors.Is(err, run.ErrCorrupt) {
		err = w.giveUp(ctx, h.run, t, err.Error())
	} else if t.at.Kind == subjects.Cancel && t.Count > w.cfg.Poison {
		err = w.giveUp(ctx, h.run, t, "the tombstone was delivered too often")
	}
	if err != nil {
		w.retryLater(ctx, t, err)
		return
	}
	w.acknowledge(ctx, t)
}

// act carries out what a run owes to the holder of a trigger, one effect after
// another. After every write, stored or refused, it reads again and does what
// is owed then; a stored outcome needs no read. On nil the trigger may be
// acknowledged. A write that is refused by what was read already would be
// refused for ever: that is an error, after which the whole run is read.
func (w *Worker) act(ctx context.Context, h *history, t *trigger) error {
	for {
		if !w.owes(h, t) {
			return nil
		}
		if ended, err := w.concluded(ctx, h); err != nil || ended {
			return err
		}
		next, err := w.step(ctx, h, t)
		if err != nil || next.done {
			return err
		}
		if next.refused && next.must <= h.state.Seq {
			return fmt.Errorf(
				"what was read of %s up to %d does not show why message %d refuses a write",
				h.run,
				h.state.Seq,
				next.must,
			)
		}
		if err := w.readOn(ctx, h, next.must); err != nil {
			return err
		}
	}
}

// readOn reads what is new and, at the same time, the reply subject, which is
// looked at before anything more is done.
func (w *Worker) readOn(ctx context.Context, h *history, must uint64) error {
	reply, ok := h.reply()
	if !ok {
		return w.read(ctx, h, must)
	}
	var end bus.Stored
	var there bool
	looked := time.Now()
	both, at := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		end, there, err = w.outcomeAt(at, reply)
		return err
	})
	both.Go(func() error { return w.read(at, h, must) })
	if err := both.Wait(); err != nil {
		return err
	}
	h.asked = time.Since(looked) < oldLook
	if there {
		return w.end(ctx, h, end)
	}
	return nil
}

// concluded looks at the reply subject: an outcome there ends the run, whatever
// its log says.
func (w *Worker) concluded(ctx context.Context, h *history) (bool, error) {
	reply, ok := h.reply()
	if !ok || h.asked {
		return h.state.OutcomeStored, nil
	}
	m, ok, err := w.outcomeAt(ctx, reply)
	if err != nil || !ok {
		return false, err
	}
	return true, w.end(ctx, h, m)
}

// outcomeAt reads the reply subject; on replicas the leader says whether there
// is anything, since a follower that lags would have the model asked again.
func (w *Worker) outcomeAt(ctx context.Context, reply string) (bus.Stored, bool, error) {
	if w.conn.Replicas() <= 1 {
		return w.conn.First(ctx, reply)
	}
	last, err := w.conn.LastSeq(ctx, reply)
	if err != nil || last == 0 {
		return bus.Stored{}, false, err
	}
	m, err := w.first(ctx, reply)
	return m, err == nil, err
}

// first reads the first message of a subject that is known to have one; a
// follower may lag.
func (w *Worker) first(ctx context.Context, subject string) (m bus.Stored, err error) {
	err = stored.CatchUp(ctx, func(ctx context.Context) (ok bool, err error) {
		m, ok, err = w.conn.First(ctx, subject)
		return ok, err
	}, "%s", subject)
	return m, err
}

func (w *Worker) step(ctx context.Context, h *history, t *trigger) (step, error) {
	if h.state.Ended() && t.Count > w.cfg.Poison {
		return finished, w.giveUp(ctx, h.run, t, "the end was delivered too often")
	}
	if !h.state.Ended() {
		if h.bad != nil {
			return w.refuseCall(ctx, h, t)
		}
		if end, doomed := w.doom(h, t); doomed {
			return w.cancelSelf(ctx, h, t, end)
		}
	}
	var next step
	for _, e := range h.state.Outstanding() {
		var err error
		if besides(e) && h.state.Phase == run.Ready && t.sentEntry == h.state.LogIndex {
			continue
		}
		switch e := e.(type) {
		case run.CallModel:
			t.sentEntry = h.state.LogIndex
			next, err = w.turn(ctx, h, t)
		case run.CallChildren:
			next, err = w.callChildren(ctx, h, e)
		case run.CancelBelow:
			err = w.cancelBelow(ctx, h, e.Below, e.End)
		case run.StopBelow:
			next, err = finished, w.stop(ctx, h, e)
		case run.LogInterrupt:
			next, err = w.logStop(ctx, h, t)
		case run.HoldTurn:
			next, err = finished, w.hold(ctx, h, e)
		case run.NotifyIdle:
			next, err = finished, w.tellIdle(ctx, h, e)
		case run.PublishAnswer:
			next, err = w.publish(ctx, h, h.state.Start(), w.signed(h, answer(h.state.Turns[e.Turn-1].Entry.Answer, h.state.Start())))
		case run.LogEnd:
			next, err = w.logEnd(ctx, h, t, e)
		case run.PublishFailure:
			next, err = w.conclude(ctx, h, e.End.Outcome())
		}
		if err != nil {
			return step{}, err
		}
	}
	return next, nil
}

// besides reports whether an effect is one that a run owes beside the asking of
// its model.
func besides(e run.Effect) bool {
	switch e.(type) {
	case run.CallChildren, run.NotifyIdle, run.StopBelow:
		return true
	case run.CallModel, run.CancelBelow, run.LogInterrupt, run.HoldTurn, run.PublishAnswer, run.LogEnd, run.PublishFailure:
	}
	return false
}

// doom decides whether a run has to end badly before anything else is done for
// it.
func (w *Worker) doom(h *history, t *trigger) (run.End, bool) {
	switch {
	case w.cancels.isCancelled(h.run):
		return run.End{Kind: run.KindCancelled, Text: "cancelled"}, true
	case expired(t) || !time.Now().Before(h.head.Deadline):
		allowed := max(0, h.head.Deadline.Sub(h.state.CalledAt).Round(time.Second))
		end := run.EndTimeout(allowed)
		// who has called another one is not to know who watches over it
		if h.state.Phase == run.Held && h.run.Path.IsRoot() {
			end.Text += ": nobody had approved of what it was about to do"
		}
		return end, true
	case t.Count > w.cfg.Poison:
		return run.End{
			Kind: run.KindPoisoned,
			Text: fmt.Sprintf("given up after %d deliveries of the message that moves it", t.Count),
		}, true
	}
	return run.End{}, false
}

// cancelSelf writes the run's own tombstone: the one way to end badly. Its
// delivery does the rest.
func (w *Worker) cancelSelf(ctx context.Context, h *history, t *trigger, end run.End) (step, error) {
	if end.Kind == run.KindPoisoned {
		if err := w.bury(ctx, h.run, t, end.Text); err != nil {
			return step{}, err
		}
	}
	body, err := json.Marshal(end)
	if err != nil {
		return step{}, err
	}
	_, err = w.conn.Write(ctx, bus.Message{Subject: h.run.Cancel(), Body: body, Fence: bus.After(h.run.Cancel(), 0)})
	if refused, ok := errors.AsType[*bus.ConflictError](err); ok {
		return after(refused), nil
	}
	if err != nil {
		return step{}, err
	}
	w.cancels.add(h.run.Tree, h.run.Path, time.Now())
	return finished, nil
}

// cancelBelow writes the cancel messages of runs below, and does not wait for
// their outcomes.
func (w *Worker) cancelBelow(ctx context.Context, h *history, below []run.Fork, end run.End) error {
	body, err := json.Marshal(end)
	if err != nil {
		return err
	}
	var ms []bus.Message
	for _, c := range below {
		child, err := w.child(h.run, c.Turn, c.Child)
		if err != nil {
			return err
		}
		ms = append(ms, bus.Message{Subject: child.Cancel(), Body: body, Fence: bus.After(child.Cancel(), 0)})
	}
	return w.writeAll(ctx, ms)
}

// callChildren publishes the calls that are due and the timer of the turn, and
// what nobody waits for, together.
func (w *Worker) callChildren(ctx context.Context, h *history, e run.CallChildren) (step, error) {
	ms, err := w.beside(h, e)
	if err != nil {
		return step{}, err
	}
	for _, c := range e.Children {
		m, _, err := w.call(h, e.Turn, c)
		if err != nil {
			return step{}, err
		}
		ms = append(ms, m)
	}
	if !e.Timer.IsZero() {
		turn := e.Turn
		if w.endsAtDeadline(h, e.Timer) {
			turn = 0
		}
		ms = append(ms, timer(h.run, turn, e.Timer))
	}
	return finished, w.writeAll(ctx, ms)
}

// call is the request to run a child.
func (w *Worker) call(h *history, turn int, c run.Child) (m bus.Message, child subjects.Run, err error) {
	start := h.state.Start()
	if child, err = w.child(h.run, turn, c); err != nil {
		return m, child, err
	}
	body, err := json.Marshal(h.ask(c.Call))
	head := subjects.Header{
		Tree: child.Tree, Path: child.Path, Parent: h.run.Agent, Depth: h.head.Depth + 1, MaxDepth: max(start.MaxDepth, h.head.Depth+1),
		Deadline: c.Deadline, Reply: h.run.Reply(turn, c.Index), Scopes: start.Scopes, Traceparent: h.head.Traceparent,
	}
	return bus.Message{
		Subject: child.Call(),
		Header:  head.Pairs(),
		Body:    body,
		Fence:   bus.After(child.Call(), 0),
	}, child, err
}

// endsAtDeadline reports whether a turn's wait ends with the deadline of a run
// that has a timer for it, which serves both then.
func (w *Worker) endsAtDeadline(h *history, at time.Time) bool {
	return h.lone() && !at.Before(h.head.Deadline)
}

// timer is the schedule that ends a turn's wait. A second firing is a no-op.
func timer(r subjects.Run, turn int, at time.Time) bus.Message {
	return bus.Message{Subject: r.Timer(turn), Body: []byte("{}"), Timer: bus.Timer{At: at, Target: r.Fired(turn)}}
}

func (w *Worker) child(r subjects.Run, turn int, c run.Child) (subjects.Run, error) {
	agent, err := subjects.ParseAgent(c.Call.Agent)
	if err != nil {
		return subjects.Run{}, err
	}
	return r.Space.Run(agent, r.Tree, r.Path.Child(turn, c.Index)), nil
}

// writeAll stores messages whose keys follow from the log: one that is there
// already was stored by an earlier attempt.
func (w *Worker) writeAll(ctx context.Context, ms []bus.Message) error {
	var failed []error
	for _, err := range w.conn.WriteAll(ctx, ms) {
		if _, there := errors.AsType[*bus.ConflictError](err); err != nil && !there {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// logEnd writes the end to the log, which fences whoever is still at work on
// the run.
func (w *Worker) logEnd(ctx context.Context, h *history, t *trigger, e run.LogEnd) (step, error) {
	return w.commit(ctx, h, t, run.Entry{Kind: run.EntryEnded, End: &e.End})
}

// commit appends an entry to the run's log.
func (w *Worker) commit(ctx context.Context, h *history, t *trigger, e run.Entry) (step, error) {
	e.Index, e.Trigger, e.Seen, e.Worker = h.state.LogIndex+1, t.Seq, h.state.Seq, w.cfg.Name
	e.CancelsSeen = w.tombsOf(h, e.Answer != nil)
	body, err := json.Marshal(e)
	if err != nil {
		return step{}, err
	}
	seq, err := w.conn.Write(ctx, bus.Message{
		Subject: h.run.Log(), Body: body, Fence: bus.After(h.run.Log(), h.state.LogSeq), Disarm: w.disarm(h, false),
		Header: schema(),
	})
	if refused, ok := errors.AsType[*bus.ConflictError](err); ok {
		return after(refused), nil
	}
	return step{must: seq}, err
}

// tombsOf is the newest tombstone behind a message: for what a model answered,
// the newest that was known when it was asked. One over the run that came later
// has aborted the request or came too late for it.
func (w *Worker) tombsOf(h *history, answered bool) uint64 {
	if answered {
		return h.tombs
	}
	return w.cancels.seen(h.run)
}

// schema is the header of a message whose subject says the rest.
func schema() [][2]string { return [][2]string{{subjects.HeaderSchema, subjects.Schema}} }

// disarm names the timer that the run's next message makes needless: that of
// the turn before, or, for the outcome of a run that has one, that of its
// deadline.
func (w *Worker) disarm(h *history, outcome bool) string {
	// when the wait of the last turn ends, zero if it has none
	var at time.Time
	n := len(h.state.Turns)
	if n > 0 {
		at = h.state.Turns[n-1].Entry.Timer
	}
	switch {
	case !at.IsZero() && !w.endsAtDeadline(h, at):
		return h.run.Timer(n)
	case outcome && h.lone():
		return h.run.Timer(0)
	}
	return ""
}

// conclude publishes the run's outcome, fenced by its log.
func (w *Worker) conclude(ctx context.Context, h *history, o run.Outcome) (step, error) {
	return w.concludeSigned(ctx, h, w.signed(h, o))
}

func (w *Worker) concludeSigned(ctx context.Context, h *history, o run.Outcome) (step, error) {
	reply, ok := h.reply()
	if !ok {
		return finished, nil
	}
	next, err := w.publishOutcome(ctx, h.run, reply, h.state.LogSeq, w.disarm(h, true), o, h.head.Reply)
	if err == nil && next.done {
		h.state, err = h.state.Apply(run.OutcomeStored{Outcome: o})
	}
	return next, err
}

func (w *Worker) publishOutcome(
	ctx context.Context,
	r subjects.Run,
	reply string,
	logSeq uint64,
	disarm string,
	o run.Outcome,
	inbox string,
) (step, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return step{}, err
	}
	m := bus.Message{
		Subject: reply, Body: body, ID: reply, Fence: bus.After(r.Log(), logSeq), Disarm: disarm,
		Header: schema(),
	}
	there, err := w.storeOutcome(ctx, m)
	if there {
		return step{}, nil // the next look shows it
	}
	if refused, ok := errors.AsType[*bus.ConflictError](err); ok {
		return after(refused), nil
	}
	if errors.Is(err, bus.ErrTooLarge) && (o.Result != "" || o.Partial != nil || len(o.Error) > muchError) {
		if o.Status == run.StatusCompleted {
			o.Status, o.Kind, o.Error = run.StatusFailed, run.KindError, err.Error()
		}
		o.Result, o.Partial, o.Error = "", nil, cut(o.Error)
		return w.publishOutcome(ctx, r, reply, logSeq, disarm, o, inbox)
	}
	if err != nil {
		return step{}, err
	}
	if strings.HasPrefix(inbox, "_INBOX.") {
		if err := w.conn.PublishEphemeral(inbox, body); err != nil {
			w.log.WarnContext(ctx, "reply to an inbox", slog.String(keyRun, r.String()), slog.Any(keyError, err))
		}
	}
	return finished, nil
}

// muchError is how many bytes of an error are kept where the whole is too
// large.
const muchError = 1024

func cut(text string) string {
	if len(text) <= muchError {
		return text
	}
	return strings.ToValidUTF8(text[:muchError], "") + "…"
}

// signed completes an outcome with where it comes from and what it took.
func (w *Worker) signed(h *history, o run.Outcome) run.Outcome {
	o.Agent, o.Tree, o.Path, o.Worker = h.run.Agent.String(), h.run.Tree.String(), h.run.Path.String(), w.cfg.Name
	o.CancelsSeen = w.tombsOf(h, o.Status == run.StatusCompleted)
	own, below := h.state.Usage(), h.state.Subtree()
	o.Subtree = below.Add(run.Totals{Usage: o.Usage, ModelCalls: o.Turns, ModelMS: o.ModelMS})
	o.Usage = o.Usage.Add(own)
	o.ModelMS += h.state.ModelMS()
	o.Retries += h.state.Retries()
	o.Turns += len(h.state.Turns)
	o.ToolCalls = h.state.ToolCalls()
	o.DurationMS = max(0, time.Since(h.state.CalledAt).Milliseconds())
	if o.Status == run.StatusFailed {
		o.Partial = h.state.Partial()
	}
	o.Stopped = len(h.state.Forks())
	return o
}

// refuseCall buries a call that cannot be run. If its reply slot is beyond
// doubt, the caller is told.
func (w *Worker) refuseCall(ctx context.Context, h *history, t *trigger) (step, error) {
	why := fmt.Sprintf("malformed call: %v", h.bad)
	if err := w.bury(ctx, h.run, t, why); err != nil {
		return step{}, err
	}
	if !h.run.Path.IsRoot() {
		return finished, nil // the caller's timer answers
	}
	return w.conclude(ctx, h, run.Failure(run.KindError, "%s", why))
}

// bury copies a trigger that could not be carried out to the dead letters, with
// the reason.
func (w *Worker) bury(ctx context.Context, r subjects.Run, t *trigger, why string) error {
	return w.deadLetter(ctx, r.Dead(), t.Delivery, why)
}

func (w *Worker) deadLetter(ctx context.Context, subject string, d *bus.Delivery, why string) error {
	_, err := w.conn.Write(ctx, bus.Message{
		Subject: subject, Body: d.Body, ID: fmt.Sprintf("dead.%s.%d", d.Subject, d.Seq),
		Header: append(
			d.Reference(),
			[2]string{"Axe-Reason", oneLine(why)},
			[2]string{"Axe-Subject", d.Subject},
			[2]string{"Axe-Sequence", strconv.FormatUint(d.Seq, 10)},
		),
	})
	if err == nil {
		w.log.ErrorContext(ctx, "dead letter", slog.String(keySubject, d.Subject), slog.String(keyError, why))
	}
	return err
}

// oneLine makes a text fit for a header.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// giveUp ends a run that cannot be folded: the trigger is buried, and the
// outcome is written with no more knowledge of the run than where its log ends
// and whom it answers.
func (w *Worker) giveUp(ctx context.Context, r subjects.Run, t *trigger, why string) error {
	if err := w.bury(ctx, r, t, why); err != nil {
		return err
	}
	ms, err := w.conn.LastPerSubject(ctx, r.Call(), r.Log())
	if err != nil {
		return err
	}
	h := &history{run: r, bad: errors.New("not read")}
	for _, m := range ms {
		switch m.Subject {
		case r.Call():
			h.head, h.bad = subjects.ParseCall(r, m.Header.Get)
		case r.Log():
			h.state.LogSeq = m.Seq
		}
	}
	reply, ok := h.reply()
	if !ok {
		return nil
	}
	o := run.Failure(run.KindPoisoned, "%s", why)
	o.Agent, o.Tree, o.Path, o.Worker = r.Agent.String(), r.Tree.String(), r.Path.String(), w.cfg.Name
	next, err := w.publishOutcome(ctx, r, reply, h.state.LogSeq, "", o, h.head.Reply)
	if err == nil && !next.done {
		err = fmt.Errorf("the log of %s moved on", r)
	}
	return err
}
