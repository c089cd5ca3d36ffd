package agentd

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// trigger is a delivered message that makes a run move.
type trigger struct {
	*bus.Delivery
	at      subjects.Address
	slot    bool // it holds one
	inbound bool // it counts as one at hand
	// how often it was read again before its model was asked, since it had
	// been read long before
	again int
	// the entry of the log of which all that nobody waits for was sent out
	// under it
	sent int
}

// desk is where one goroutine handles the triggers of one run, one after
// another. It exists while there are any.
type desk struct {
	run   subjects.Run
	queue []*trigger
	// when whoever is at work here should have ended long since; zero: it
	// takes as long as it takes
	until time.Time

	// whoever is at work here waits for more than so many outcomes
	few int
	// says that there are; nil: nobody waits
	more func()
}

// deliver puts a trigger on its run's desk. If whoever is at work there hangs,
// or much waits there for its model's answer, the run gets another desk, as it
// would at another worker: the fences hold between the two.
func (w *Worker) deliver(ctx context.Context, t *trigger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.desks[t.at.Run]
	switch {
	case d == nil || !d.until.IsZero() && (len(d.queue) >= muchBehind || time.Now().After(d.until)):
		d = &desk{run: t.at.Run}
		w.desks[t.at.Run] = d
		w.seat(ctx, d)
	case t.slot: // whoever is at work there may be waiting for this very slot
		t.slot = false
		w.slots.give()
	}
	if !d.until.IsZero() {
		w.waitBehind(t, d.until)
	}
	d.queue = append(d.queue, t)
	if d.more != nil && !onlyReplies(d.queue, d.few) {
		d.more()
	}
}

// muchBehind is how many triggers wait at most behind one whose model is being
// asked: letters, say.
const muchBehind = 64

// bound ends the leases of a trigger, and of what waits behind it, at a time:
// work past its deadline is nobody's to keep.
func (w *Worker) bound(t *trigger, until time.Time) {
	t.LimitLease(until)
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.desks[t.at.Run]; d != nil {
		d.until = until
		for _, behind := range d.queue {
			w.waitBehind(behind, until)
		}
	}
}

// waitBehind has a trigger wait until a model has answered. It is not at hand:
// the worker takes what is for others.
func (w *Worker) waitBehind(t *trigger, until time.Time) {
	t.LimitLease(until)
	w.putDown(t)
}

// seat finds a goroutine for a desk: one that has just cleared another, its
// stack grown already, or a new one.
func (w *Worker) seat(ctx context.Context, d *desk) {
	select {
	case w.idle <- d:
	default:
		w.handlers.Go(func() {
			for d != nil {
				w.sit(ctx, d)
				d = w.rest(ctx)
			}
		})
	}
}

// rest waits a moment for another desk.
func (w *Worker) rest(ctx context.Context) *desk {
	if w.draining.Load() {
		return nil
	}
	t := time.NewTimer(again)
	defer t.Stop()
	select {
	case d := <-w.idle:
		return d
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}

// sit handles a desk's triggers until there are none: all that came meanwhile
// with one read of what is new, so that the fan-in of N replies costs N and not
// N times N.
func (w *Worker) sit(ctx context.Context, d *desk) {
	h := w.cache.take(d.run)
	if h == nil {
		h = &history{run: d.run}
	}
	for batch := w.next(ctx, d, h); len(batch) > 0; batch = w.next(ctx, d, h) {
		if err := w.handle(ctx, h, batch); err != nil {
			*h = history{run: d.run}
		}
	}
}

// gathering is how long outcomes wait for others.
const gathering = time.Millisecond

// gather waits a moment where nothing has come but outcomes, and too few of
// them for the run to owe anything, as far as is known here: they are read
// together with those that come next.
func (w *Worker) gather(ctx context.Context, d *desk, h *history) {
	few := min(w.atHand()/2, h.state.OutcomesAwaited()-1)
	if few <= 0 {
		return
	}
	ctx, more := context.WithCancel(ctx)
	defer more()
	w.mu.Lock()
	wait := len(d.queue) > 0 && onlyReplies(d.queue, few)
	if wait {
		d.few, d.more = few, more
	}
	w.mu.Unlock()
	if !wait {
		return
	}
	_ = bus.Pause(ctx, gathering) // ends early when more has come
	w.mu.Lock()
	d.more = nil
	w.mu.Unlock()
}

// onlyReplies reports whether triggers are no more than so many, and all of
// them outcomes.
func onlyReplies(ts []*trigger, most int) bool { return len(ts) <= most && replies(ts) == len(ts) }

// next takes what is on the desk, or clears it away.
func (w *Worker) next(ctx context.Context, d *desk, h *history) []*trigger {
	w.gather(ctx, d, h)
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := d.queue
	d.queue, d.until = nil, time.Time{}
	if len(batch) == 0 {
		if w.desks[d.run] == d {
			delete(w.desks, d.run)
		}
		w.cache.put(h)
	}
	return batch
}

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
			w.done(ctx, t)
		}
	}
	var failed error
	for _, t := range owners {
		if err := w.act(ctx, h, t); err != nil {
			failed = err
			w.undone(ctx, t, err)
			continue
		}
		w.done(ctx, t)
	}
	return failed
}

// readFor reads what a batch of triggers needs. Where the run is idle, or they
// may be the last that it waits for, its reply subject is looked at as well: it
// goes on then.
func (w *Worker) readFor(ctx context.Context, h *history, batch []*trigger) error {
	if err := w.tombs.learned(ctx, h.run); err != nil {
		return err
	}
	must, err := w.mustRead(ctx, h, batch)
	if err != nil {
		return err
	}
	if h.state.Phase == run.Idle || h.state.Phase == run.Awaiting && h.state.OutcomesAwaited() <= replies(batch) {
		return w.readOn(ctx, h, must)
	}
	return w.read(ctx, h, must)
}

// replies counts the outcomes in a batch.
func replies(batch []*trigger) (n int) {
	for _, t := range batch {
		if t.at.Kind == subjects.Reply {
			n++
		}
	}
	return n
}

// inTime leaves out the triggers that have waited here for longer than their
// leases, while the server heard nothing of this process: they come again, to
// whoever asks, and another worker may have them already.
func (w *Worker) inTime(batch []*trigger) []*trigger {
	return slices.DeleteFunc(batch, func(t *trigger) bool {
		late := t.LeaseExpired()
		if late {
			w.free(t)
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

// done acknowledges a trigger.
func (w *Worker) done(ctx context.Context, t *trigger) {
	w.free(t)
	if err := t.Ack(); err != nil {
		w.log.DebugContext(ctx, "acknowledge", slog.String(keySubject, t.Subject), slog.Any(keyError, err))
	}
}

// undone gives a trigger back that could not be carried out, to this worker or
// another one.
func (w *Worker) undone(ctx context.Context, t *trigger, err error) {
	w.free(t)
	if w.draining.Load() {
		w.giveBack(ctx, t.Delivery, 0)
		return
	}
	if t.LeaseExpired() {
		w.log.WarnContext(
			ctx,
			"left to another worker",
			slog.String(keyRun, t.at.Run.String()),
			slog.Uint64(keySeq, t.Seq),
			slog.Any(keyError, err),
		)
		return
	}
	w.log.WarnContext(ctx, "trigger given back", slog.String(keyRun, t.at.Run.String()), slog.Uint64(keySeq, t.Seq),
		slog.Int(keyCount, t.Count), slog.Any(keyError, err))
	// a fault that lasts is not a poisoned run
	w.giveBack(ctx, t.Delivery, again<<min(t.Count-1, 5))
}

// unread is what becomes of a trigger whose run could not be read: a corrupt
// one is ended, anything else may be better next time.
func (w *Worker) unread(ctx context.Context, h *history, t *trigger, err error) {
	if errors.Is(err, run.ErrCorrupt) {
		err = w.giveUp(ctx, h.run, t, err.Error())
	} else if t.at.Kind == subjects.Cancel && t.Count > w.cfg.Poison {
		err = w.giveUp(ctx, h.run, t, "the tombstone was delivered too often")
	}
	if err != nil {
		w.undone(ctx, t, err)
		return
	}
	w.done(ctx, t)
}

// putDown has a trigger count as one at hand no longer.
func (w *Worker) putDown(t *trigger) {
	if t.inbound {
		t.inbound = false
		w.inbound.Add(-1)
	}
}

func (w *Worker) free(t *trigger) {
	w.putDown(t)
	if t.slot {
		t.slot = false
		w.slots.give()
	}
}
