package agentd

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// again is the pause before something that failed on the bus is tried once
// more.
const again = time.Second

// saturated is how long a call that was pulled waits for a slot before it is
// given back.
const saturated = 100 * time.Millisecond

// reconcile starts and stops the loops of agents as Serve and the known agents
// change, until ctx ends; then it waits for all of them.
func (w *Worker) reconcile(ctx, work context.Context) {
	var loops sync.WaitGroup
	defer loops.Wait()
	serving := map[subjects.Agent]context.CancelFunc{}
	told := map[subjects.Agent]configs.Agent{}
	for {
		select {
		case <-ctx.Done():
			for _, stop := range serving {
				stop()
			}
			return
		case <-w.changed:
		}
		w.announceAll(ctx)
		agents := w.toServe(ctx)
		for name, stop := range serving {
			if !agents[name] {
				stop()
				delete(serving, name)
			}
		}
		for name := range agents {
			if serving[name] != nil {
				continue
			}
			loop, stop := context.WithCancel(ctx)
			serving[name] = stop
			for part := range w.conn.Space().Partitions() {
				loops.Go(func() { w.serveCalls(loop, work, source{name, part}) })
				loops.Go(func() { w.serveInbound(loop, work, source{name, part}) })
			}
		}
		told = w.report(ctx, told)
	}
}

// report logs which agents came and went since it was told last.
func (w *Worker) report(ctx context.Context, told map[subjects.Agent]configs.Agent) map[subjects.Agent]configs.Agent {
	now := w.definitions()
	for name := range told {
		if _, still := now[name]; !still {
			w.log.InfoContext(ctx, "agent removed", slog.String(keyAgent, name.String()))
		}
	}
	for name, def := range now {
		if _, known := told[name]; !known {
			w.log.InfoContext(
				ctx,
				"serving agent",
				slog.String(keyAgent, name.String()),
				slog.String(keyFile, def.File),
			)
		}
	}
	return now
}

// toServe is what there are to be loops for: the worker's own agents, and those
// that it served until they were removed and that nobody else serves. Of these
// the runs under way go on, and what was called while they were known finds
// somebody to refuse it.
func (w *Worker) toServe(ctx context.Context) map[subjects.Agent]bool {
	agents := map[subjects.Agent]bool{}
	for name := range w.definitions() {
		agents[name] = true
	}
	w.mu.Lock()
	removed := maps.Clone(w.removed)
	w.mu.Unlock()
	for name := range removed {
		if w.part(name) {
			insist(ctx, w.log, "withdraw agent", func() error { return w.names.withdraw(ctx, name) })
		}
		if !w.names.announced(name) {
			agents[name] = true
		}
	}
	return agents
}

// announceAll says of each agent that it is served, or what is wrong with its
// file.
func (w *Worker) announceAll(ctx context.Context) {
	for name, c := range w.deck() {
		first := c.Problem != "" && w.part(name)
		insist(ctx, w.log, "announce agent", func() error { return w.names.announce(ctx, c, first) })
	}
}

// part reports whether the known agents are to be told that an agent went away
// or wrong: once.
func (w *Worker) part(name subjects.Agent) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	parted := w.parted[name]
	delete(w.parted, name)
	return parted
}

// deck is what this worker has to say of agents.
func (w *Worker) deck() map[subjects.Agent]Card {
	w.mu.Lock()
	defer w.mu.Unlock()
	cards := make(map[subjects.Agent]Card, len(w.agents)+len(w.broken))
	for name, def := range w.agents {
		cards[name] = w.card(def)
	}
	for name, problem := range w.broken {
		cards[name] = Card{Name: name.String(), Problem: problem, Worker: w.cfg.Name}
	}
	return cards
}

// noted answers a change of the known agents: what another worker has
// withdrawn, or calls wrong though it is right here, is announced again; what
// is nobody's any more may be this one's to wind up.
func (w *Worker) noted(name string, c Card, gone bool) {
	a, err := subjects.ParseAgent(name)
	if err != nil {
		return
	}
	w.mu.Lock()
	_, removed := w.removed[a]
	_, served := w.agents[a]
	_, broken := w.broken[a]
	w.mu.Unlock()
	if removed || gone && (served || broken) || served && c.Problem != "" {
		w.wake()
	}
}

// open opens a feed of a consumer, which it makes if it is not there.
func (w *Worker) open(ctx context.Context, c bus.ConsumerConfig, ahead func() int) (*bus.Feed, error) {
	bc, err := w.conn.Consumer(ctx, c)
	if err != nil {
		return nil, err
	}
	return bc.Open(ahead)
}

// source is where calls and inbound messages come from: an agent's consumers on
// the stream of a partition.
type source struct {
	agent subjects.Agent
	part  int
}

// serveInbound takes what is said to the runs of one agent.
func (w *Worker) serveInbound(ctx, work context.Context, from source) {
	c := bus.ConsumerConfig{
		Stream:  "RUNS",
		Part:    from.part,
		Name:    "agent_" + from.agent.String() + "_in",
		Filters: w.conn.Space().Inbound(from.agent),
	}
	w.pull(ctx, c, min(64, w.atHand()/2), func(d *bus.Delivery) { w.take(work, d, false) })
}

// serveRootEnds takes the deadlines and tombstones of roots, whoever serves
// their agents.
func (w *Worker) serveRootEnds(ctx, work context.Context, part int) {
	c := bus.ConsumerConfig{Stream: "RUNS", Part: part, Name: "roots", Filters: w.conn.Space().RootEnds()}
	w.pull(ctx, c, 8, func(d *bus.Delivery) { w.take(work, d, false) })
}

// forwarded is how long a submission may be in the hands of a worker before
// another one takes it: it is on its way as soon as it is looked at, and who is
// second finds it there.
const forwarded = time.Second

// serveSubmissions takes tasks from outside.
func (w *Worker) serveSubmissions(ctx, work context.Context) {
	c := bus.ConsumerConfig{
		Stream:  "SUBMIT",
		Name:    "submissions",
		Filters: []string{w.conn.Space().Submissions()},
		Soon:    forwarded,
	}
	room := make(chan struct{}, 64)
	w.withFeed(ctx, c, func() int { return 8 }, func(feed *bus.Feed) error {
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

// atHand is how many inbound messages a worker takes before it has done with
// the first of them. Those that make a run ready wait for a slot, and another
// worker may have one free.
func (w *Worker) atHand() int { return max(4, 2*w.cfg.Slots) }

// pull hands every delivery of a consumer on, until ctx ends. It pauses while
// too many are at hand.
func (w *Worker) pull(ctx context.Context, c bus.ConsumerConfig, ahead int, take func(*bus.Delivery)) {
	w.withFeed(ctx, c, func() int { return ahead }, func(feed *bus.Feed) error {
		for int(w.inbound.Load()) >= w.atHand() {
			if err := bus.Pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		d, err := feed.Next(ctx)
		if err == nil {
			take(d)
		}
		return err
	})
}

// withFeed calls next again and again with a feed of the consumer, until ctx
// ends; what was on its way then is given back. After a fault of the bus it
// waits a moment and opens another feed.
func (w *Worker) withFeed(ctx context.Context, c bus.ConsumerConfig, ahead func() int, next func(*bus.Feed) error) {
	for ctx.Err() == nil {
		feed, err := w.open(ctx, c, ahead)
		for err == nil {
			err = next(feed)
		}
		if feed != nil {
			rest := context.WithoutCancel(ctx)
			// given back at once they would come here again, once
			// for all that was asked for
			var late []*bus.Delivery
			for d := feed.Drain(rest); d != nil; d = feed.Drain(rest) {
				late = append(late, d)
			}
			feed.Close()
			for _, d := range late {
				w.giveBack(ctx, d, 0)
			}
		}
		if ctx.Err() == nil {
			w.log.WarnContext(ctx, "pull failed", slog.Any(keyError, err))
			_ = bus.Pause(ctx, again)
		}
	}
}

// serveCalls takes the calls of one agent, each with a free slot to run it.
// With slots to spare it lets a request for some of them stand at the server.
// Without, one agent after the other is asked whether it has a call for the
// last slot, since standing requests of all of them would bring more calls than
// there are slots.
func (w *Worker) serveCalls(ctx, work context.Context, from source) {
	c := bus.ConsumerConfig{
		Stream:  "RUNS",
		Part:    from.part,
		Name:    "agent_" + from.agent.String(),
		Filters: []string{w.conn.Space().Calls(from.agent)},
	}
	w.withFeed(ctx, c, func() int { return w.share(from) }, func(feed *bus.Feed) error {
		if err := w.slots.room(ctx); err != nil {
			return err
		}
		if w.share(from) > 0 {
			d, err := feed.Next(ctx)
			if d != nil {
				w.intake.had(from, time.Now())
				w.takeCall(ctx, work, d)
			}
			return err
		}
		taken, err := w.poll(ctx, work, from, feed)
		if taken || err != nil {
			return err
		}
		pause, longest := w.intake.pause(from, time.Now(), w.sources())
		if longest {
			pause = w.conn.AlignedDelay(pause)
		}
		return bus.Pause(ctx, pause)
	})
}

// poll takes a call if there is one at this moment, and a slot. One agent at a
// time is asked.
func (w *Worker) poll(ctx, work context.Context, from source, feed *bus.Feed) (taken bool, err error) {
	select {
	case w.polling <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	var d *bus.Delivery
	if w.slots.tryTake() {
		if d, err = feed.Poll(ctx); d == nil {
			w.slots.give()
		}
	}
	<-w.polling
	if d == nil {
		return false, err
	}
	w.intake.had(from, time.Now())
	w.take(work, d, true)
	return true, nil
}

// share is how many calls a standing request may ask for, 0 if none may stand.
func (w *Worker) share(from source) int {
	return w.intake.share(from, time.Now(), w.sources(), w.slots.spare())
}

// sources is how many the calls come from.
func (w *Worker) sources() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.agents) * w.conn.Space().Partitions()
}

// takeCall starts a call. Those of several agents may have come for one slot:
// what finds none for a while goes back, for another worker.
func (w *Worker) takeCall(ctx, work context.Context, d *bus.Delivery) {
	if !w.slots.tryTake() {
		soon, cancel := context.WithTimeout(ctx, saturated)
		err := w.slots.take(soon)
		cancel()
		if err != nil {
			// by then nothing is asked for here
			w.giveBack(work, d, bus.PullExpiry)
			return
		}
	}
	w.take(work, d, true)
}

// giveBack returns a delivery for another worker, after a delay. A worker that
// drains keeps it until its own requests for messages are over: it would come
// back here again and again.
func (w *Worker) giveBack(ctx context.Context, d *bus.Delivery, delay time.Duration) {
	w.mu.Lock()
	keep := w.draining.Load() && !w.pulled
	if keep {
		w.returns = append(w.returns, d)
	}
	w.mu.Unlock()
	if keep {
		return
	}
	if err := d.Nak(delay); err != nil {
		w.log.DebugContext(ctx, "give back", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
	}
}

// giveBackAll returns what was kept, once nothing is asked for any more.
func (w *Worker) giveBackAll(ctx context.Context) {
	w.mu.Lock()
	kept := w.returns
	w.returns, w.pulled = nil, true
	w.mu.Unlock()
	for _, d := range kept {
		w.giveBack(ctx, d, 0)
	}
}

// take hands a delivery to the desk of its run.
func (w *Worker) take(work context.Context, d *bus.Delivery, slot bool) {
	t := &trigger{Delivery: d, slot: slot, inbound: !slot}
	if t.inbound {
		w.inbound.Add(1)
	}
	var err error
	if t.at, err = w.conn.Space().Parse(d.Subject); err != nil {
		w.log.WarnContext(work, "dropped", slog.String(keySubject, d.Subject), slog.Any(keyError, err))
		w.done(work, t)
		return
	}
	w.deliver(work, t)
}
