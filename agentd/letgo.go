package agentd

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
)

const (
	// leaveDelay is the time between the record that a source is leaving
	// and the check that it has no work. Within it every worker stops
	// pulling, and no worker trusts an older record any more
	// (confirmedFor).
	leaveDelay = 4 * time.Second
	// letGoInterval is the time between two rounds of letting go.
	letGoInterval = time.Second
	// maxLetGo is the largest number of sources of one round.
	maxLetGo = 256
	// atOnce is the largest number of calls that each makes at a time.
	atOnce = 16
)

// activeAgents is the part of a worker that keeps the agents with work active,
// and makes the others dormant.
type activeAgents struct{ *Worker }

func (w activeAgents) consumers() bus.Consumers { return bus.Consumers{Conn: w.conn} }

// each calls do for each value, atOnce at a time. It returns the first error,
// which ends the context of the other calls.
func each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, v := range all {
		group.Go(func() error { return do(ctx, v) })
	}
	return group.Wait()
}

// letAgentsGo makes sources dormant while more are active than the worker is
// configured for: the longest unused first, and none that was used within
// Config.DormantAfter.
func (w activeAgents) letAgentsGo(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.letGoRound(ctx); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "agents without work not let go", slog.Any(keyError, err))
		}
		// Workers that begin together should not go on together.
		_ = pause.For(ctx, letGoInterval+rand.N(letGoInterval))
	}
}

// letGoRound makes one round: it makes abandoned sources active again, and
// surplus ones dormant.
func (w activeAgents) letGoRound(ctx context.Context) error {
	if !w.activity.isOn() {
		return nil
	}
	err := each(ctx, w.activity.abandoned(time.Now()), func(ctx context.Context, s source) error {
		r, err := w.activity.look(ctx, s)
		if err == nil && r.State == leaving {
			_, _, err = w.activity.change(ctx, s, r, activityRecord{State: active, After: r.After})
		}
		return err
	})
	if err != nil {
		return err
	}
	surplus := w.activity.len() - w.cfg.ActiveAgents*w.conn.Space().Partitions()
	if surplus <= 0 {
		return nil
	}
	served := func(s source) bool { served, _, _ := w.agents.status(s.agent); return served }
	unused := w.activity.unused(time.Now().Add(-w.cfg.DormantAfter), min(surplus, maxLetGo), served)
	if len(unused) == 0 {
		return nil
	}
	always, err := w.registry.AlwaysActive(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	marked := map[source]activityRecord{}
	err = each(ctx, unused, func(ctx context.Context, s source) error {
		r, ok, err := w.markLeaving(ctx, s, always)
		if ok {
			mu.Lock()
			marked[s] = r
			mu.Unlock()
		}
		return err
	})
	if err := pause.For(ctx, leaveDelay); err != nil {
		return err
	}
	return errors.Join(err, w.letGoMarked(ctx, marked))
}

// markLeaving changes the record of a source to leaving if the source seems to
// have no work. It returns the new record. It returns false for a source with
// work, or if another worker changed the record. Always has the agents of
// workers that pull for all their agents; their sources stay active.
func (w activeAgents) markLeaving(
	ctx context.Context, s source, always map[string]bool,
) (r activityRecord, ok bool, _ error) {
	if always[s.agent.String()] {
		w.activity.use(s)
		return r, false, nil
	}
	for _, c := range w.consumersOf(s) {
		p, _, err := w.consumers().Position(ctx, c)
		if err != nil {
			return r, false, err
		}
		if p.Pending() {
			w.activity.use(s)
			return r, false, nil
		}
	}
	r, err := w.activity.look(ctx, s)
	if err != nil || r.State != active {
		return r, false, err // another worker checks it
	}
	return w.activity.change(ctx, s, r, activityRecord{State: leaving, After: r.After})
}

// letGoMarked checks the sources that were marked, and makes them dormant or
// active again.
func (w activeAgents) letGoMarked(ctx context.Context, marked map[source]activityRecord) error {
	newest := map[int]uint64{}
	for s := range marked {
		if _, known := newest[s.partition]; known {
			continue
		}
		var err error
		if newest[s.partition], err = w.consumers().Newest(ctx, s.partition); err != nil {
			return err
		}
	}
	sources := make([]source, 0, len(marked))
	for s := range marked {
		sources = append(sources, s)
	}
	return each(ctx, sources, func(ctx context.Context, s source) error {
		return w.letGo(ctx, s, marked[s], newest[s.partition])
	})
}

// letGo makes a source dormant if the source has no work, and active again if
// it has. The record r says that the source is leaving. Newest was the newest
// sequence of the source's stream before the check.
func (w activeAgents) letGo(ctx context.Context, s source, r activityRecord, newest uint64) error {
	free, err := w.withoutWork(ctx, s, r)
	if err != nil {
		return err
	}
	if !free {
		w.activity.use(s)
		_, _, err := w.activity.change(ctx, s, r, activityRecord{State: active, After: r.After})
		return err
	}
	// The consumers come first, so that none is left behind if this worker
	// dies. The server removes them later, unless a worker pulls.
	for _, c := range w.consumersOf(s) {
		if err := w.consumers().ExpireConsumer(ctx, c); err != nil {
			return err
		}
	}
	_, done, err := w.activity.change(ctx, s, r, activityRecord{State: dormant, After: newest})
	if done || err != nil {
		return err
	}
	if r, err = w.activity.look(ctx, s); err != nil || r.State != active {
		return err
	}
	// The source has got work meanwhile.
	for _, c := range w.consumersOf(s) {
		if _, err := w.consumers().ConsumerAfter(ctx, c, r.After); err != nil {
			return err
		}
	}
	return nil
}

// withoutWork reports whether a source has no work: every trigger of it that
// the stream's leader has is acknowledged, and no worker requests one. The
// leader of a consumer may lag behind the stream's leader, so both are asked.
func (w activeAgents) withoutWork(ctx context.Context, s source, r activityRecord) (bool, error) {
	for _, c := range w.consumersOf(s) {
		p, there, err := w.consumers().Position(ctx, c)
		if err != nil {
			return false, err
		}
		if p.Pending() || p.Requested {
			return false, nil
		}
		floor := p.Floor
		if !there {
			floor = r.After
		}
		if more, err := w.consumers().Matches(ctx, s.partition, c.Filters, floor); err != nil || more {
			return false, err
		}
	}
	return true, nil
}

// inboundSuffix ends the name of the consumer of an agent's inbound messages.
const inboundSuffix = "_in"

// callsOf is the consumer of a source's calls.
func (w activeAgents) callsOf(s source) bus.ConsumerConfig {
	return bus.ConsumerConfig{
		Stream: "RUNS", Partition: s.partition, Name: "agent_" + s.agent.String(),
		Filters: []string{w.conn.Space().Calls(s.agent)},
	}
}

// inboundOf is the consumer of a source's inbound messages.
func (w activeAgents) inboundOf(s source) bus.ConsumerConfig {
	return bus.ConsumerConfig{
		Stream: "RUNS", Partition: s.partition, Name: "agent_" + s.agent.String() + inboundSuffix,
		Filters: w.conn.Space().Inbound(s.agent),
	}
}

func (w activeAgents) consumersOf(s source) []bus.ConsumerConfig {
	return []bus.ConsumerConfig{w.callsOf(s), w.inboundOf(s)}
}
