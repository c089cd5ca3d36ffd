package agentd

import (
	"context"
	"log/slog"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// busRetryDelay is the pause before a worker repeats something that failed on
// the bus.
const busRetryDelay = time.Second

// slotWait is the time for which a pulled call waits for a slot before the
// worker gives it back.
const slotWait = 100 * time.Millisecond

// submissionLease is the lease of a submission. It is short, because a worker
// forwards a submission as soon as it has it; a second worker finds the call
// there.
const submissionLease = time.Second

// maxSubmissions is the number of submissions that a worker handles at a time.
const maxSubmissions = 64

// Numbers of messages that a request asks for.
const (
	submissionsPerRequest = 8
	rootEndsPerRequest    = 8
	maxInboundPerRequest  = 64
)

// serveInbound takes the inbound messages of the runs of one agent.
func (w *Worker) serveInbound(ctx, work context.Context, from source) {
	c := bus.ConsumerConfig{
		Stream: "RUNS", Partition: from.partition, Name: "agent_" + from.agent.String() + "_in",
		Filters: w.conn.Space().Inbound(from.agent),
	}
	w.pullInbound(ctx, work, c, min(maxInboundPerRequest, w.maxInbound()/2))
}

// serveRootEnds takes the deadlines and cancel messages of all roots. So a root
// ends though no worker serves its agent.
func (w *Worker) serveRootEnds(ctx, work context.Context, partition int) {
	c := bus.ConsumerConfig{Stream: "RUNS", Partition: partition, Name: "roots", Filters: w.conn.Space().RootEnds()}
	w.pullInbound(ctx, work, c, rootEndsPerRequest)
}

// serveSubmissions takes tasks from outside.
func (w *Worker) serveSubmissions(ctx, work context.Context) {
	c := bus.ConsumerConfig{
		Stream: "SUBMIT", Name: "submissions", Filters: []string{w.conn.Space().Submissions()},
		FirstLease: submissionLease,
	}
	room := make(chan struct{}, maxSubmissions)
	w.withFeed(ctx, c, func() int { return submissionsPerRequest }, func(feed *bus.Feed) error {
		d, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		room <- struct{}{}
		w.handlers.Go(func() {
			defer func() { <-room }()
			w.submitted(work, d)
		})
		return nil
	})
}

// maxInbound is the number of inbound messages that a worker takes before it
// has finished the first of them. Messages that make a run ready wait for a
// slot, and another worker may have one free: a worker with one slot once took
// twenty runs that another worker could have served.
func (w *Worker) maxInbound() int { return max(4, 2*w.cfg.Slots) }

// pullInbound takes the deliveries of a consumer of inbound messages, until ctx
// ends. It pauses while the worker has maxInbound messages.
func (w *Worker) pullInbound(ctx, work context.Context, c bus.ConsumerConfig, perRequest int) {
	w.withFeed(ctx, c, func() int { return perRequest }, func(feed *bus.Feed) error {
		for int(w.inbound.Load()) >= w.maxInbound() {
			if err := pause.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		d, err := feed.Next(ctx)
		if err == nil {
			w.take(work, d, false)
		}
		return err
	})
}

// withFeed calls next again and again with a feed of the consumer, until ctx
// ends. It makes the consumer if it is missing. At the end it gives back the
// messages that were on their way. After a fault of the bus it pauses, and
// opens another feed.
func (w *Worker) withFeed(
	ctx context.Context, c bus.ConsumerConfig, perRequest func() int, next func(*bus.Feed) error,
) {
	for ctx.Err() == nil {
		var feed *bus.Feed
		bc, err := w.conn.Consumer(ctx, c)
		if err == nil {
			feed, err = bc.Open(perRequest)
		}
		for err == nil {
			err = next(feed)
		}
		if feed != nil {
			w.drainFeed(ctx, feed)
		}
		if ctx.Err() == nil {
			w.log.WarnContext(ctx, "pull failed", slog.Any(keyError, err))
			_ = pause.For(ctx, busRetryDelay)
		}
	}
}

// drainFeed closes a feed and gives back the messages that came late. It gives
// them back after the feed is closed: before, the server would deliver them
// here again, until every request is used up.
func (w *Worker) drainFeed(ctx context.Context, feed *bus.Feed) {
	draining := context.WithoutCancel(ctx)
	var late []*bus.Delivery
	for d := feed.Drain(draining); d != nil; d = feed.Drain(draining) {
		late = append(late, d)
	}
	feed.Close()
	w.returnUnused(ctx, 0, late...)
}

// serveCalls takes the calls of one agent, each with a free slot to run it.
// With spare slots it keeps a request for several calls at the server. Without
// them it polls: standing requests of all agents would bring more calls than
// there are slots. A call that is given back costs a return, and time.
func (w *Worker) serveCalls(ctx, work context.Context, from source) {
	c := bus.ConsumerConfig{
		Stream: "RUNS", Partition: from.partition, Name: "agent_" + from.agent.String(),
		Filters: []string{w.conn.Space().Calls(from.agent)},
	}
	w.withFeed(ctx, c, func() int { return w.share(from) }, func(feed *bus.Feed) error {
		if err := w.slots.waitFree(ctx); err != nil {
			return err
		}
		if w.share(from) > 0 {
			d, err := feed.Next(ctx)
			if d != nil {
				w.admission.received(from, time.Now())
				w.takeCall(ctx, work, d)
			}
			return err
		}
		d, err := w.poll(ctx, feed)
		if d != nil {
			w.admission.received(from, time.Now())
			w.take(work, d, true)
		}
		if d != nil || err != nil {
			return err
		}
		delay, longest := w.admission.pollPause(from, time.Now(), w.sources())
		if longest {
			// The longest pauses of all agents end together, so
			// that a process with 500 idle agents wakes once for
			// all: 0.07 of a core instead of 0.18.
			delay = w.conn.AlignedDelay(delay)
		}
		return pause.For(ctx, delay)
	})
}

// poll takes a slot and a call, if there is one of each at this moment. One
// source is polled at a time.
func (w *Worker) poll(ctx context.Context, feed *bus.Feed) (d *bus.Delivery, err error) {
	select {
	case w.polling <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-w.polling }()
	if w.slots.tryTake() {
		if d, err = feed.Poll(ctx); d == nil {
			w.slots.give()
		}
	}
	return d, err
}

// share returns the number of calls that a standing request may ask for. With 0
// no request may stand.
func (w *Worker) share(from source) int {
	return w.admission.share(from, time.Now(), w.sources(), w.slots.spare())
}

// sources returns the number of sources of calls.
func (w *Worker) sources() int { return w.agents.len() * w.conn.Space().Partitions() }

// takeCall starts a call. Calls of several agents may have come for one slot. A
// call that finds no slot for a while goes back, for another worker.
func (w *Worker) takeCall(ctx, work context.Context, d *bus.Delivery) {
	if !w.slots.tryTake() {
		wait, cancel := context.WithTimeout(ctx, slotWait)
		err := w.slots.take(wait)
		cancel()
		if err != nil {
			// After this delay, this worker's own request has run
			// out.
			if d.Count == 1 {
				// A return would cost a call that waits for its
				// first slot two messages.
				w.giveBack(work, d, bus.PullExpiry)
			} else {
				w.returnUnused(work, bus.PullExpiry, d)
			}
			return
		}
	}
	w.take(work, d, true)
}

// giveBack returns a delivery after a delay, for another worker. A draining
// worker keeps it until its own requests have run out: before, the server would
// deliver it here again and again.
func (w *Worker) giveBack(ctx context.Context, d *bus.Delivery, delay time.Duration) {
	w.mu.Lock()
	keep := w.draining.Load() && !w.pullsEnded
	if keep {
		w.returns = append(w.returns, d)
	}
	w.mu.Unlock()
	if keep {
		return
	}
	if err := d.Nak(delay); err != nil {
		w.log.DebugContext(ctx, "give back failed", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
	}
}

// giveBackAll returns the kept deliveries, once all requests have run out.
func (w *Worker) giveBackAll(ctx context.Context) {
	w.mu.Lock()
	kept := w.returns
	w.returns = nil
	w.pullsEnded = true
	w.mu.Unlock()
	for _, d := range kept {
		w.giveBack(ctx, d, 0)
	}
}

// take dispatches a delivery to the queue of its run. Slot says that it holds
// one; a delivery without a slot is an inbound message.
func (w *Worker) take(work context.Context, d *bus.Delivery, slot bool) {
	t := &trigger{Delivery: d, slot: slot, inbound: !slot}
	if t.inbound {
		w.inbound.Add(1)
	}
	var err error
	if t.at, err = w.conn.Space().Parse(d.Subject); err != nil {
		w.log.WarnContext(work, "message dropped", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
		w.acknowledge(work, t)
		return
	}
	if t.at.Kind == subjects.Returned {
		// It makes nothing owed. The next read of its run finds it.
		w.acknowledge(work, t)
		return
	}
	w.enqueue(work, t)
}
