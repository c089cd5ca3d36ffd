package agentd

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// again is the pause before something that failed on the bus is tried once more.
const again = time.Second

// saturated is how long a worker may be without a free slot before it withdraws its pulls for calls,
// so that other workers get them.
const saturated = 50 * time.Millisecond

// reconcile starts and stops the loops of agents as Serve changes them, until ctx ends; then it waits
// for all of them.
func (w *Worker) reconcile(ctx, work context.Context) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	serving := map[subjects.Agent]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			for _, stop := range serving {
				stop()
			}
			return nil
		case <-w.changed:
		}
		w.mu.Lock()
		agents := maps.Clone(w.agents)
		w.mu.Unlock()
		for name, stop := range serving {
			if _, still := agents[name]; !still {
				stop()
				delete(serving, name)
				w.log.InfoContext(ctx, "agent removed", slog.String(keyAgent, name.String()))
				w.retry(ctx, "withdraw agent", func() error { return w.names.withdraw(ctx, name) })
			}
		}
		for name, def := range agents {
			w.retry(ctx, "announce agent", func() error { return w.names.announce(ctx, w.cfg.Name, def) })
			if serving[name] != nil {
				continue
			}
			loop, stop := context.WithCancel(ctx)
			serving[name] = stop
			w.log.InfoContext(ctx, "serving agent", slog.String(keyAgent, name.String()), slog.String(keyFile, def.File))
			loops.Go(func() { w.serveCalls(loop, work, name) })
			loops.Go(func() { w.serveInbound(loop, work, name) })
		}
	}
}

// reannounce answers the removal of an agent's card: another worker has stopped to serve what this one
// still serves.
func (w *Worker) reannounce(ctx context.Context, name string) {
	a, err := subjects.ParseAgent(name)
	if err != nil {
		return
	}
	if def, ok := w.definition(a); ok {
		if err := w.names.announce(ctx, w.cfg.Name, def); err != nil {
			w.log.WarnContext(ctx, "announce agent", slog.String(keyAgent, name), slog.Any(keyError, err))
		}
	}
}

// retry does something until it works or ctx ends.
func (w *Worker) retry(ctx context.Context, what string, do func() error) {
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		w.log.WarnContext(ctx, "trying again", slog.String(keyKind, what), slog.Any(keyError, err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// open makes or takes a consumer, until it works or ctx ends.
func (w *Worker) open(ctx context.Context, stream, name string, filters ...string) *bus.Consumer {
	var c *bus.Consumer
	w.retry(ctx, "consumer "+name, func() (err error) {
		c, err = w.conn.Consumer(ctx, stream, name, filters...)
		return err
	})
	return c
}

// serveInbound takes what is said to the runs of one agent.
func (w *Worker) serveInbound(ctx, work context.Context, a subjects.Agent) {
	c := w.open(ctx, "RUNS", "agent_"+a.String()+"_in", w.conn.Space().Inbound(a)...)
	w.pull(ctx, c, 64, func(d *bus.Delivery) { w.take(work, d, false) })
}

// serveRootEnds takes the deadlines and tombstones of roots, whoever serves their agents.
func (w *Worker) serveRootEnds(ctx, work context.Context) error {
	c := w.open(ctx, "RUNS", "roots", w.conn.Space().RootEnds()...)
	w.pull(ctx, c, 8, func(d *bus.Delivery) { w.take(work, d, false) })
	return nil
}

// serveSubmissions takes tasks from outside.
func (w *Worker) serveSubmissions(ctx, work context.Context) error {
	c := w.open(ctx, "SUBMIT", "submissions", w.conn.Space().Submissions())
	room := make(chan struct{}, 64)
	w.pull(ctx, c, 8, func(d *bus.Delivery) {
		room <- struct{}{}
		w.handlers.Go(func() {
			defer func() { <-room }()
			w.submitted(work, d)
		})
	})
	return nil
}

// pull hands every delivery of a consumer on, until ctx ends. It pauses while more runs wait for a
// slot than there are slots: another worker may have one free.
func (w *Worker) pull(ctx context.Context, c *bus.Consumer, ahead int, take func(*bus.Delivery)) {
	for ctx.Err() == nil {
		feed, err := c.Open(ahead)
		for err == nil {
			var d *bus.Delivery
			if d, err = feed.Next(ctx); err == nil {
				take(d)
				err = w.breathe(ctx)
			}
		}
		w.close(ctx, feed, err)
	}
}

// breathe waits while the line for slots is longer than the slots are many.
func (w *Worker) breathe(ctx context.Context) error {
	for w.slots.waiting() > w.cfg.Slots {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// close withdraws a feed and gives back what was on its way. After a fault of the bus it waits a
// moment.
func (w *Worker) close(ctx context.Context, feed *bus.Feed, err error) {
	if feed != nil {
		w.drain(ctx, feed, func(d *bus.Delivery) { w.giveBack(ctx, d, 0) })
	}
	if ctx.Err() != nil || errors.Is(err, bus.ErrDrained) {
		return
	}
	w.log.WarnContext(ctx, "pull failed", slog.Any(keyError, err))
	select {
	case <-ctx.Done():
	case <-time.After(again):
	}
}

func (w *Worker) drain(ctx context.Context, feed *bus.Feed, rest func(*bus.Delivery)) {
	feed.Drain()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for {
		d, err := feed.Next(ctx)
		if err != nil {
			return
		}
		rest(d)
	}
}

// serveCalls takes the calls of one agent, each with a free slot to run it.
func (w *Worker) serveCalls(ctx, work context.Context, a subjects.Agent) {
	c := w.open(ctx, "RUNS", "agent_"+a.String(), w.conn.Space().Calls(a))
	for ctx.Err() == nil {
		if w.slots.room(ctx) != nil {
			return
		}
		feed, err := c.Open(1)
		if err != nil {
			w.close(ctx, nil, err)
			continue
		}
		err = w.pullCalls(ctx, work, feed)
		w.drain(ctx, feed, func(d *bus.Delivery) { w.takeCall(work, d) })
		if err != nil {
			w.close(ctx, nil, err)
		}
	}
}

// pullCalls pulls one call after another until ctx ends or the worker is saturated, which is no error.
func (w *Worker) pullCalls(ctx, work context.Context, feed *bus.Feed) error {
	ctx, full := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer full(nil)
	watch.Go(func() {
		if w.slots.filled(ctx, saturated) == nil {
			full(errSaturated)
		}
	})
	for {
		d, err := feed.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		w.takeCall(work, d)
		if w.slots.room(ctx) != nil {
			return nil
		}
	}
}

var errSaturated = errors.New("no free slot")

// takeCall starts a call. Pulls of several agents may have crossed: what finds no slot goes back.
func (w *Worker) takeCall(work context.Context, d *bus.Delivery) {
	if w.draining.Load() || !w.slots.tryTake() {
		w.giveBack(work, d, 0)
		return
	}
	w.take(work, d, true)
}

func (w *Worker) giveBack(ctx context.Context, d *bus.Delivery, delay time.Duration) {
	if err := d.Nak(delay); err != nil {
		w.log.DebugContext(ctx, "give back", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
	}
}

// take hands a delivery to the desk of its run.
func (w *Worker) take(work context.Context, d *bus.Delivery, slot bool) {
	t := &trigger{Delivery: d, slot: slot}
	var err error
	if t.at, err = w.conn.Space().Parse(d.Subject); err != nil {
		w.log.WarnContext(work, "dropped", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
		w.done(work, t)
		return
	}
	w.deliver(work, t)
}
