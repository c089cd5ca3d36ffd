package agentd

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
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

// submissionLease is the lease of a submission's first delivery. It is short,
// because a worker forwards a submission as soon as it has it, and sets the
// root's timer after timerDelay. A second worker finds the call there.
const submissionLease = timerDelay * 3 / 2

// maxSubmissions is the number of submissions that a worker handles at a time.
const maxSubmissions = 64

// Numbers of messages that a request asks for.
const (
	submissionsPerRequest = 8
	sharedPerRequest      = 8
	maxInboundPerRequest  = 64
)

// serveInbound takes the inbound messages of one source.
func (w *Worker) serveInbound(ctx, work context.Context, from source) {
	all := activeAgents{w}
	open := all.opensSource(from, all.inboundOf(from))
	w.pullInbound(ctx, work, open, min(maxInboundPerRequest, w.maxInbound()/2), func() { w.activity.use(from) })
}

// sharedConsumers are the consumers of a partition that every worker serves,
// whatever its agents are. One has the deadlines and cancel messages of all
// roots. So a root ends though no worker serves its agent. The other one has
// the firings of the timers of all turns.
func sharedConsumers(s subjects.Space, partition int) []bus.ConsumerConfig {
	return []bus.ConsumerConfig{
		{Stream: "RUNS", Partition: partition, Name: "roots", Filters: s.RootEnds()},
		{Stream: "RUNS", Partition: partition, Name: "timers", Filters: []string{s.DueTimers()}},
	}
}

// submissionConsumer is the consumer of tasks from outside.
func submissionConsumer(s subjects.Space) bus.ConsumerConfig {
	return bus.ConsumerConfig{
		Stream: "SUBMIT", Name: "submissions", Filters: []string{s.Submissions()}, FirstLease: submissionLease,
	}
}

// removeForwarded removes the submissions that workers have acknowledged, a
// second after one was, until ctx ends.
func removeForwarded(ctx context.Context, w *Worker) error {
	for {
		select {
		case <-w.forwarded:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		_ = pause.For(ctx, time.Second)
		err := activeAgents{w}.consumers().RemoveAcknowledged(ctx, submissionConsumer(w.conn.Space()))
		if err != nil {
			w.log.DebugContext(ctx, "submissions not removed", slog.Any(keyError, err))
		}
	}
}

// serveSubmissions takes tasks from outside. With its first feed the worker
// serves.
func (w *Worker) serveSubmissions(ctx, work context.Context) {
	c := submissionConsumer(w.conn.Space())
	room := make(chan struct{}, maxSubmissions)
	serving := sync.OnceFunc(w.cfg.Serving)
	w.withFeed(ctx, activeAgents{w}.opens(c), func() int { return submissionsPerRequest }, func(feed *bus.Feed) error {
		serving()
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
// ends. It pauses while the worker has maxInbound messages. It calls took for
// each delivery.
func (w *Worker) pullInbound(ctx, work context.Context, open opener, perRequest int, took func()) {
	w.withFeed(ctx, open, func() int { return perRequest }, func(feed *bus.Feed) error {
		for int(w.inbound.Load()) >= w.maxInbound() {
			if err := pause.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		d, err := feed.Next(ctx)
		if err == nil {
			took()
			w.take(work, d, false)
		}
		return err
	})
}

// opener finds a consumer, or makes it if it is missing.
type opener func(context.Context) (*bus.Consumer, error)

// opens returns the opener of a consumer that always exists.
func (w activeAgents) opens(c bus.ConsumerConfig) opener {
	return func(ctx context.Context) (*bus.Consumer, error) { return w.conn.Consumer(ctx, c) }
}

// errDormant is the error of an opener if no worker pulls from the source.
var errDormant = errors.New("the agent is dormant")

// opensSource returns the opener of a consumer of a source.
func (w activeAgents) opensSource(s source, c bus.ConsumerConfig) opener {
	return func(ctx context.Context) (*bus.Consumer, error) {
		if !w.activity.isOn() {
			return w.conn.Consumer(ctx, c)
		}
		// The copy of the record may be old, and the consumer's place
		// follows from the record.
		r, err := w.activity.look(ctx, s)
		if err != nil {
			return nil, err
		}
		if r.State != active {
			return nil, errDormant
		}
		return w.consumers().ConsumerAfter(ctx, c, r.After)
	}
}

// withFeed calls next again and again with a feed of a consumer, until ctx
// ends. After an error it pauses and opens another feed. The pause is about
// busRetryDelay at first and doubles with each error, up to about
// maxBusRetryDelay. A feed that stayed open for longer than the pause resets
// it. Whenever a feed ends, withFeed gives back the messages that came too
// late.
func (w *Worker) withFeed(
	ctx context.Context, open opener, perRequest func() int, next func(*bus.Feed) error,
) {
	delay := busRetryDelay
	for ctx.Err() == nil {
		feed, err := activeAgents{w}.openFeed(ctx, open, perRequest)
		opened := time.Now()
		for err == nil {
			err = next(feed)
		}
		if feed != nil {
			w.drainFeed(ctx, feed)
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, errDormant) {
			w.pullFailures.add(err)
		}
		if feed != nil && time.Since(opened) > delay {
			delay = busRetryDelay
		}
		// The consumers of many agents fail together, for example when
		// a server restarts. They do not begin again together.
		_ = pause.For(ctx, delay/2+rand.N(delay))
		delay = min(2*delay, maxBusRetryDelay)
	}
}

// maxBusRetryDelay bounds the pause before a consumer is opened again.
const maxBusRetryDelay = 8 * time.Second

// maxOpening is the number of consumers that a worker opens at a time. A server
// makes one after the other. Requests beyond that wait there, for longer than
// their senders do.
const maxOpening = 16

// openFeed opens a consumer and a feed of it.
func (w activeAgents) openFeed(ctx context.Context, open opener, perRequest func() int) (*bus.Feed, error) {
	select {
	case w.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-w.opening }()
	c, err := open(ctx)
	if err != nil {
		return nil, err
	}
	return c.Open(perRequest)
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

// serveCalls takes the calls of one source, each with a free slot to run it.
// With spare slots it keeps a request for several calls at the server. Without
// them it polls: standing requests of all sources would bring more calls than
// there are slots. A call that is given back costs time and another delivery.
func (w *Worker) serveCalls(ctx, work context.Context, from source) {
	all := activeAgents{w}
	open := all.opensSource(from, all.callsOf(from))
	w.withFeed(ctx, open, func() int { return w.share(from) }, func(feed *bus.Feed) error {
		if err := awaitSlot(ctx, w, feed); err != nil {
			return err
		}
		if feed.HasCome() || w.share(from) > 0 {
			d, err := feed.Next(ctx)
			if d != nil {
				activeAgents{w}.received(from, d)
				w.takeCall(ctx, work, d)
			}
			return err
		}
		d, err := w.poll(ctx, feed)
		if d != nil {
			activeAgents{w}.received(from, d)
			w.take(work, d, true)
		}
		if d != nil || err != nil {
			return err
		}
		delay, longest := w.admission.pollPause(from, time.Now(), w.sources())
		if longest {
			// The longest pauses of all sources end together, so
			// that a process with 500 idle agents wakes once for
			// all: 0.07 of a core instead of 0.18.
			delay = w.conn.AlignedDelay(delay)
		}
		return pause.AtMost(ctx, delay, w.activity.polls(from))
	})
}

// awaitSlot waits until a slot is free, or a call has come that was requested
// while one was free. Such a call finds no slot and goes back: it must not wait
// here until its lease is over.
func awaitSlot(ctx context.Context, w *Worker, feed *bus.Feed) error {
	if w.slots.spare() > 0 {
		return nil // without a timer for each call
	}
	for feed.Expects() && !feed.HasCome() {
		wait, cancel := context.WithTimeout(ctx, slotWait)
		err := w.slots.waitFree(wait)
		cancel()
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if feed.HasCome() {
		return nil
	}
	return w.slots.waitFree(ctx)
}

// received notes a call.
func (w activeAgents) received(from source, d *bus.Delivery) {
	w.admission.received(from, d.Waiting, time.Now())
	w.activity.use(from)
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

// sources returns the number of sources of calls that the worker pulls from.
func (w *Worker) sources() int { return int(w.pulled.Load()) }

// takeCall takes a slot for a call and starts it. The requests of several
// sources may have brought calls for one free slot. A call that finds no slot
// within slotWait is given back for another worker.
func (w *Worker) takeCall(ctx, work context.Context, d *bus.Delivery) {
	if !w.slots.tryTake() {
		wait, cancel := context.WithTimeout(ctx, slotWait)
		err := w.slots.take(wait)
		cancel()
		if err != nil {
			// After this delay, this worker's own request has run
			// out.
			if d.Count == 1 {
				// A return would cost two messages. Without
				// one, the delivery counts against the call.
				w.giveBack(work, d, bus.PullExpiry)
			} else {
				w.returnUnused(work, bus.PullExpiry, d)
			}
			return
		}
	}
	w.take(work, d, true)
}

// giveBack asks the server to deliver a message again after a delay, 0 for at
// once. A draining worker keeps the delivery until its own requests have run
// out: until then, the server could deliver the message to this worker again.
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

// take dispatches a delivery to the queue of its run. Slot says that the
// delivery is a call that holds a slot. A delivery without a slot is an inbound
// message. A return, and a message with a malformed subject, are acknowledged
// at once.
func (w *Worker) take(work context.Context, d *bus.Delivery, slot bool) {
	t := &trigger{Delivery: d, inbound: !slot}
	if slot {
		t.pool = w.slots
	}
	if t.inbound {
		w.inbound.Add(1)
	}
	var err error
	if t.at, err = w.conn.Space().Parse(d.Subject); err != nil {
		w.log.WarnContext(work, "message dropped", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
		w.acknowledge(work, t)
		return
	}
	w.cfg.Metrics.Delivered(t.at.Run.Agent.String(), d.Count)
	if t.at.Kind == subjects.Returned {
		// A return makes nothing owed. The next read of the run has it.
		w.acknowledge(work, t)
		return
	}
	w.enqueue(work, t)
}
