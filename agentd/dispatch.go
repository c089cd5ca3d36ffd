package agentd

import (
	"context"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// trigger is a delivered message under which a worker moves a run.
type trigger struct {
	*bus.Delivery
	at subjects.Address
	// pool is the pool of which the trigger holds a slot, nil without a slot.
	pool *slots
	// inbound says that the trigger counts against the inbound limit.
	inbound bool
	// begun is the sequence of the ReturnBegun of this delivery, 0 if none
	// is stored.
	begun uint64
}

// ownTimerFired reports whether the trigger is the firing of the run's own
// timer.
func (t *trigger) ownTimerFired() bool { return t.at.Kind == subjects.Timer && t.at.Turn == 0 }

// takeSlot waits for a slot of a pool.
func (t *trigger) takeSlot(ctx context.Context, pool *slots) error {
	err := pool.take(ctx)
	if err == nil {
		t.pool = pool
	}
	return err
}

// giveSlot frees the slot of the trigger, if it holds one.
func (t *trigger) giveSlot() {
	if t.pool != nil {
		t.pool.give()
		t.pool = nil
	}
}

// runQueue is the queue of triggers of one run in one worker. One goroutine
// handles them, one batch after another. The queue ends when the goroutine
// finds it empty.
type runQueue struct {
	w        *Worker
	run      subjects.Run
	triggers []*trigger
	// until is the time by which the current batch should have ended. It is
	// zero while the batch has no such time.
	until time.Time
	// enough ends the wait of gather. It is notified when the queue holds
	// more than gatherLimit outcomes, or any other message. It is nil while
	// gather does not wait.
	enough      chan struct{}
	gatherLimit int
	// since is the time at which the worker got the run.
	since time.Time
	// progress is the last report of progress, and progressAt its time,
	// zero if there was none.
	progress   run.Progress
	progressAt time.Time
}

// maxBehindModelCall is the largest number of triggers, for example mail, that
// wait behind a model call.
const maxBehindModelCall = 64

// enqueue puts a trigger into the queue of its run. If the handler hangs, or
// too many triggers wait behind a model call, the run gets a second queue. That
// is safe for the reason for which a second worker is safe: writes are fenced.
func (w *Worker) enqueue(ctx context.Context, t *trigger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[t.at.Run]
	switch {
	case q == nil || !q.until.IsZero() && (len(q.triggers) >= maxBehindModelCall || time.Now().After(q.until)):
		q = &runQueue{w: w, run: t.at.Run, since: time.Now()}
		w.queues[t.at.Run] = q
		w.startHandler(ctx, q)
	default:
		// The handler of the queue may be waiting for this very slot.
		t.giveSlot()
	}
	if !q.until.IsZero() {
		w.waitBehind(t, q.until)
	}
	q.triggers = append(q.triggers, t)
	if q.enough != nil && !onlyOutcomes(q.triggers, q.gatherLimit) {
		pause.Notify(q.enough)
	}
}

// limitLease ends the leases of a trigger and of the triggers behind it at a
// time. A handler that still works after that time counts as hung (enqueue).
func (w *Worker) limitLease(t *trigger, until time.Time) {
	t.LimitLease(until)
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.queues[t.at.Run]; q != nil {
		q.until = until
		for _, behind := range q.triggers {
			w.waitBehind(behind, until)
		}
	}
}

// waitBehind makes a trigger wait until a model has answered. The trigger no
// longer counts against the inbound limit, so the worker keeps pulling for
// other runs.
func (w *Worker) waitBehind(t *trigger, until time.Time) {
	t.LimitLease(until)
	w.uncount(t)
}

// startHandler finds a goroutine for a queue: one that has just emptied another
// queue, or a new one. A new goroutine for each call spent a tenth of the
// worker's time on growing its stack.
func (w *Worker) startHandler(ctx context.Context, q *runQueue) {
	select {
	case w.spare <- q:
	default:
		w.handlers.Go(func() {
			for q != nil {
				q.handleAll(ctx)
				q = w.awaitQueue(ctx)
			}
		})
	}
}

// handlerIdleTime is the time for which a goroutine waits for another queue
// before it ends.
const handlerIdleTime = time.Second

// awaitQueue waits for another queue. It returns nil if none came, or if the
// worker drains.
func (w *Worker) awaitQueue(ctx context.Context) *runQueue {
	if w.draining.Load() {
		return nil
	}
	t := time.NewTimer(handlerIdleTime)
	defer t.Stop()
	select {
	case q := <-w.spare:
		return q
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}

// handleAll handles the triggers until the queue is empty. It reads the run
// once for all triggers that came while it handled the last batch.
func (q *runQueue) handleAll(ctx context.Context) {
	h, ok := q.w.cache.take(q.run)
	if !ok {
		h = &loadedRun{w: q.w, run: q.run}
	}
	for batch := q.next(ctx, h); len(batch) > 0; batch = q.next(ctx, h) {
		if err := h.handle(ctx, batch); err != nil {
			h.forget()
		}
	}
}

// next takes all triggers of the queue. If there are none, it removes the
// queue, puts the run into the cache, and returns nil.
func (q *runQueue) next(ctx context.Context, h *loadedRun) []*trigger {
	q.gather(ctx, h)
	w := q.w
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := q.triggers
	q.triggers = nil
	q.until = time.Time{}
	if len(batch) == 0 {
		if w.queues[q.run] == q {
			delete(w.queues, q.run)
		}
		w.cache.put(h)
	}
	return batch
}

// gatherDelay is the time for which outcomes wait for further outcomes.
const gatherDelay = time.Millisecond

// gather waits for gatherDelay if the queue holds only outcomes, and too few of
// them for the run to owe anything. The next batch then has the outcomes that
// came during the wait too. Without gather, a parent with five children made
// three or four reads for their outcomes; with it, one.
func (q *runQueue) gather(ctx context.Context, h *loadedRun) {
	limit := min(q.w.maxInbound()/2, h.state.OutcomesAwaited()-1)
	if limit <= 0 {
		return
	}
	enough := make(chan struct{}, 1)
	w := q.w
	w.mu.Lock()
	wait := len(q.triggers) > 0 && onlyOutcomes(q.triggers, limit)
	if wait {
		q.gatherLimit = limit
		q.enough = enough
	}
	w.mu.Unlock()
	if !wait {
		return
	}
	_ = pause.AtMost(ctx, gatherDelay, enough)
	w.mu.Lock()
	q.enough = nil
	w.mu.Unlock()
}

// onlyOutcomes reports whether there are at most limit triggers, and all of
// them are outcomes.
func onlyOutcomes(ts []*trigger, limit int) bool {
	return len(ts) <= limit && countOutcomes(ts) == len(ts)
}

// countOutcomes counts the outcomes in a batch.
func countOutcomes(batch []*trigger) (n int) {
	for _, t := range batch {
		if t.at.Kind == subjects.Reply {
			n++
		}
	}
	return n
}

// acknowledge releases and acknowledges a trigger.
func (w *Worker) acknowledge(ctx context.Context, t *trigger) {
	w.release(t)
	ack(ctx, w, t.Delivery)
}

// ack acknowledges a delivery. Without the acknowledgement it comes again.
func ack(ctx context.Context, w *Worker, d *bus.Delivery) {
	if err := d.Ack(); err != nil {
		w.log.DebugContext(ctx, "acknowledgement failed", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
	}
}

// uncount stops counting a trigger against the inbound limit.
func (w *Worker) uncount(t *trigger) {
	if t.inbound {
		t.inbound = false
		w.inbound.Add(-1)
	}
}

// release stops counting a trigger, and frees its slot if it holds one.
func (w *Worker) release(t *trigger) {
	w.uncount(t)
	t.giveSlot()
}
