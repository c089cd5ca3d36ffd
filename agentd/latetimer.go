package agentd

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// The timer of a root or of a turn is of use only if the wait is long. So a
// worker sets it when the wait has taken timerDelay. Most waits have ended by
// then, and cost no timer. Until the timer is set, or needless, the worker does
// not acknowledge the message that made it owed: the submission of the root, or
// the trigger of the turn. If the worker dies, the server delivers that message
// again, and the next worker sets the timer.

// timerDelay is the time for which a worker puts off a timer.
const timerDelay = time.Second

// lateTimer is a timer that a worker has put off.
type lateTimer struct {
	run subjects.Run
	// message sets the timer. Its fence refuses a timer that is needless.
	message bus.Message
	// stepped is the sum of the steps of the stream's clock when the
	// timer's time was reckoned.
	stepped time.Duration
	// entry is the sequence of the log entry of the turn, 0 for a root.
	entry uint64
	// reply is the reply subject of a turn's run.
	reply string
	// delivery is the message that made the timer owed, nil for a timer
	// that is written at once.
	delivery *bus.Delivery
	// due is the time at which the timer is set.
	due time.Time
}

// rootTimer returns the timer of a root. It is refused once the root has an
// outcome.
func rootTimer(w *Worker, r subjects.Run, deadline time.Time) *lateTimer {
	m := timer(r, 0, deadline)
	m.Fence = bus.After(r.Space.Result(r.Agent, r.Tree), 0)
	return &lateTimer{run: r, message: m, stepped: w.conn.Clocks.Of(r).Stepped()}
}

// turnTimer returns the timer of the last turn. It is refused if the turn has a
// timer: an interrupt may have brought the end of the wait forward.
func turnTimer(x *execution, turn int, at time.Time) *lateTimer {
	m := timer(x.run, turn, at)
	m.Fence = bus.First(m.Subject)
	reply, _ := x.replySubject()
	return &lateTimer{
		run: x.run, message: m, stepped: x.stepped, entry: x.state.LogSeq, reply: reply, delivery: x.t.Delivery,
	}
}

// mayPutOff reports whether the timer of the last turn, at a time, may be put
// off. The timer of a turn that was held or reviewed replaces an earlier one. A
// turn of which a call waits for another one sets its timer more than once.
func mayPutOff(x *execution, at time.Time) bool {
	e := x.state.Turns[len(x.state.Turns)-1].Entry
	return !e.Deferred() && !e.Ordered() && x.clock().Until(x.onPresentClock(at)) > 2*timerDelay
}

// present returns the message that sets the timer, by the present clock.
func (t *lateTimer) present(w *Worker) bus.Message {
	m := t.message
	m.Timer.At = m.Timer.At.Add(w.conn.Clocks.Of(t.run).Stepped() - t.stepped)
	return m
}

// isOver reports whether the turn's run has moved on. A root's timer has a
// fence for that.
func (t *lateTimer) isOver(ctx context.Context, w *Worker) (bool, error) {
	if t.entry == 0 {
		return false, nil
	}
	return movedOn(ctx, w, t.run, t.reply, t.entry)
}

// write sets the timer.
func (t *lateTimer) write(ctx context.Context, w *Worker) error {
	_, err := w.conn.Write(ctx, t.present(w))
	return t.retryUnlessEnded(ctx, w, err)
}

// retryUnlessEnded returns the error of the write that sets the timer, nil if
// the timer or the outcome of a root was there. Answers of the server, and
// outcomes that do not count, keep no timer out: retryUnlessEnded writes the
// timer again, after them.
func (t *lateTimer) retryUnlessEnded(ctx context.Context, w *Worker, err error) error {
	conflict, there := errors.AsType[*bus.ConflictError](err)
	for there && t.entry == 0 {
		_, ended, failed := w.runs.OutcomeAt(ctx, t.run, t.message.Fence.Subject)
		if ended || failed != nil {
			return failed
		}
		m := t.present(w)
		m.Fence.Seq = conflict.Last
		_, err = w.conn.Write(ctx, m)
		conflict, there = errors.AsType[*bus.ConflictError](err)
	}
	return unlessThere(err)
}

// lateTimers are the timers that a worker has put off.
type lateTimers struct {
	w *Worker
	// added is ready when there is a timer to wait for.
	added chan struct{}

	mu        sync.Mutex
	bySubject map[string]*lateTimer
	// queue has the timers in the order in which they become due. It may
	// have some that are not in bySubject any more.
	queue []*lateTimer
}

func newLateTimers(w *Worker) *lateTimers {
	return &lateTimers{w: w, added: make(chan struct{}, 1), bySubject: map[string]*lateTimer{}}
}

// putOff takes over a timer and the delivery that it holds. If that message was
// delivered again meanwhile, the newest delivery counts.
func (l *lateTimers) putOff(t *lateTimer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bySubject[t.message.Subject] = t
	l.enqueue(t)
}

// expect announces the timer of a root that is about to be called. It is not
// set before putOffExpected. But the root may end first, since a worker may
// have its call before the caller learns that the call is stored. expect
// returns false if there is a timer already, of an earlier delivery.
func (l *lateTimers) expect(t *lateTimer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bySubject[t.message.Subject] != nil {
		return false
	}
	l.bySubject[t.message.Subject] = t
	return true
}

// putOffExpected is putOff for a timer that was announced, unless the root has
// ended since.
func (l *lateTimers) putOffExpected(t *lateTimer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bySubject[t.message.Subject] == t {
		l.enqueue(t)
	}
}

// enqueue makes a timer due after timerDelay. The caller holds the lock.
func (l *lateTimers) enqueue(t *lateTimer) {
	t.due = time.Now().Add(timerDelay)
	l.queue = append(l.queue, t)
	pause.Notify(l.added)
}

// take removes a timer, if it is there: the caller is about to make it
// needless.
func (l *lateTimers) take(subject string) (*lateTimer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.bySubject[subject]
	delete(l.bySubject, subject)
	return t, ok
}

// run sets the timers that are due, until ctx ends.
func (l *lateTimers) run(ctx context.Context) error {
	for ctx.Err() == nil {
		next := l.setDue(ctx, time.Now())
		if next.IsZero() {
			select {
			case <-l.added:
			case <-ctx.Done():
			}
			continue
		}
		// Those that become due soon after the first are set with it.
		_ = pause.For(ctx, time.Until(next)+timerDelay/20)
	}
	return context.Cause(ctx)
}

// setAll sets every timer at once, for a worker that drains.
func (l *lateTimers) setAll(ctx context.Context) { l.setDue(ctx, time.Now().Add(timerDelay)) }

// setDue sets the timers that are due at a time. It returns the time of the
// next one, zero if there is none.
func (l *lateTimers) setDue(ctx context.Context, now time.Time) (next time.Time) {
	l.mu.Lock()
	var due []*lateTimer
	for len(l.queue) > 0 {
		t := l.queue[0]
		pending := l.bySubject[t.message.Subject] == t
		if pending && t.due.After(now) {
			next = t.due
			break
		}
		if l.queue = l.queue[1:]; pending {
			delete(l.bySubject, t.message.Subject)
			due = append(due, t)
		}
	}
	l.mu.Unlock()
	l.set(ctx, due)
	return next
}

// set sets timers together, and acknowledges the deliveries that they hold.
// Without an acknowledgement the message comes again, and with it the timer.
func (l *lateTimers) set(ctx context.Context, due []*lateTimer) {
	w := l.w
	type written struct {
		*lateTimer
		err error
	}
	var open []written
	var ms []bus.Message
	for _, t := range due {
		over, err := t.isOver(ctx, w)
		switch {
		case err != nil:
			l.failed(ctx, t, err)
		case over:
			t.acknowledge(ctx, w)
		default:
			open = append(open, written{lateTimer: t})
			ms = append(ms, t.present(w))
		}
	}
	for i, err := range w.conn.WriteAll(ctx, ms) {
		open[i].err = err
	}
	_ = each(ctx, open, func(ctx context.Context, t written) error {
		if err := t.retryUnlessEnded(ctx, w, t.err); err != nil {
			l.failed(ctx, t.lateTimer, err)
		} else {
			t.acknowledge(ctx, w)
		}
		return nil
	})
}

// failed gives back the delivery of a timer that could not be set.
func (l *lateTimers) failed(ctx context.Context, t *lateTimer, err error) {
	l.w.log.WarnContext(ctx, "timer not set", slog.String(keySubject, t.message.Subject), slog.Any(keyError, err))
	l.w.giveBack(ctx, t.delivery, busRetryDelay)
}

// acknowledge acknowledges the delivery that the timer holds.
func (t *lateTimer) acknowledge(ctx context.Context, w *Worker) {
	if t.entry == 0 {
		pause.Notify(w.forwarded)
	}
	ack(ctx, w, t.delivery)
}

// timerRemoval removes the timers that a write makes needless. Before the
// write, it takes those that were put off, and finds the one that the write
// removes.
type timerRemoval struct {
	late *lateTimers
	// taken are the timers that were put off.
	taken []*lateTimer
	// disarm is the timer that the write removes, "" for none.
	disarm string
	// rest are the timers that need a request of their own.
	rest []string
}

// removeTimers begins the removal of timers. Empty subjects are left out.
func removeTimers(l *lateTimers, subjects ...string) timerRemoval {
	r := timerRemoval{late: l}
	for _, subject := range subjects {
		if subject == "" {
			continue
		}
		t, ok := l.take(subject)
		switch {
		case ok:
			r.taken = append(r.taken, t)
		case r.disarm == "":
			r.disarm = subject
		default:
			r.rest = append(r.rest, subject)
		}
	}
	return r
}

// end ends the removal after the write. If the write was not stored, the timers
// are put off again.
func (r timerRemoval) end(ctx context.Context, stored bool) {
	w := r.late.w
	for _, t := range r.taken {
		if stored {
			t.acknowledge(ctx, w)
		} else {
			// A copy: t itself would stay at its old place in the
			// queue, with the later time, and hold up the others.
			r.late.putOff(new(*t))
		}
	}
	if !stored {
		return
	}
	for _, subject := range r.rest {
		// A timer that is left fires without an effect.
		if err := bus.RemoveTimer(ctx, w.conn, subject); err != nil {
			w.log.DebugContext(ctx, "timer not removed", slog.String(keySubject, subject), slog.Any(keyError, err))
		}
	}
}
