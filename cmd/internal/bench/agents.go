package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/axebus/axe/internal/pause"
)

// agentWorkers is the number of workers of the workload agents.
const agentWorkers = 3

// fleet is a testbed with workers that serve some number of agents.
type fleet struct {
	*testbed
	// start is the time from the start of the workers to the first outcome
	// of an agent of the workloads, and of the last agent.
	start time.Duration
	// back is the time from the start of the server after its death to the
	// first outcome.
	back time.Duration
	// usedByServer and usedByWorkers are cores that they take without work.
	usedByServer, usedByWorkers float64
	// memory is the server's largest resident memory in bytes.
	memory    int64
	consumers int
}

// agentsAtWork compares workers that serve many agents, of which few have work,
// with workers that serve few. Each group has a server of its own, unless the
// benchmark is attached to a running one.
func agentsAtWork(ctx context.Context, s *testbed) (ms []Metric, err error) {
	cfg := s.cfg
	cfg.Prefix += "-few"
	cfg.Profile = "" // the names would be those of the other fleet
	other, err := newTestbed(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.close(ctx)) }()
	few, many := &fleet{testbed: other}, &fleet{testbed: s}
	many.extraAgents = s.cfg.Agents
	if err := errors.Join(few.begin(ctx), many.begin(ctx)); err != nil {
		return nil, err
	}
	one, oneOfFew := &runner{do: many.leaf}, &runner{do: few.leaf}
	if err := s.compare(ctx, 1, one, oneOfFew); err != nil {
		return nil, err
	}
	all, allOfFew := &runner{do: many.leaf}, &runner{do: few.leaf}
	if err := s.compare(ctx, s.cfg.Slots, all, allOfFew); err != nil {
		return nil, err
	}
	next := 0
	rare := &runner{do: func(ctx context.Context) error {
		next++
		return many.leafOf(ctx, fmt.Sprint("other", next%many.extraAgents))
	}}
	if err := rare.round(ctx, min(many.extraAgents, rareLeaves), 1); err != nil {
		return nil, err
	}
	ms = []Metric{
		duration("start with few, to the first outcome", few.start),
		duration(fmt.Sprintf("start with %d more", s.cfg.Agents), many.start).atMost(10),
		duration("a leaf with few, p50", oneOfFew.quantile(.5)), duration("with many, p50", one.quantile(.5)),
		quotient("latency of a leaf, of that with few", one, oneOfFew).atMost(1.5),
		rate("leaves with few", allOfFew.rate()), rate("leaves with many", all.rate()),
		ratio("rate of leaves, of that with few", all.rate()/allOfFew.rate()).atLeast(.8),
		duration("a leaf of an agent without work before, p50", rare.quantile(.5)),
		duration("the same, p99", rare.quantile(.99)),
		count("cores taken by idle workers, few", few.usedByWorkers), count("many", many.usedByWorkers),
		count("consumers", float64(many.consumers)),
	}
	if s.server == nil {
		return ms, nil
	}
	if err := errors.Join(few.restart(ctx), many.restart(ctx)); err != nil {
		return nil, err
	}
	return append(ms,
		duration("from the server's start to the first outcome, few", few.back),
		duration("from the server's start to the first outcome, many", many.back).atMost(5),
		count("cores taken by its server, few", few.usedByServer), count("many", many.usedByServer),
		size("memory of the server", many.memory)), nil
}

// begin starts the workers, and measures them without work.
func (f *fleet) begin(ctx context.Context) error {
	last := "leaf"
	if f.extraAgents > 0 {
		last = fmt.Sprint("other", f.extraAgents-1)
	}
	began := time.Now()
	if err := f.startWorkers(ctx, agentWorkers, false); err != nil {
		return err
	}
	if err := f.leafOf(ctx, last); err != nil {
		return err
	}
	f.start = time.Since(began)
	before, err := f.settled(ctx)
	// A server that is busy with consumers answers late.
	for waiting := time.Now(); err != nil && ctx.Err() == nil && time.Since(waiting) < settleTimeout; {
		before, err = f.settled(ctx)
	}
	if err != nil {
		return err
	}
	began = time.Now()
	if err := pause.For(ctx, 2*f.cfg.For); err != nil {
		return err
	}
	after, err := f.meter(ctx)
	if err != nil {
		return err
	}
	wall := time.Since(began).Seconds()
	f.usedByWorkers = (after.workers.CPU - before.workers.CPU).Seconds() / wall
	f.usedByServer = (after.server.CPU - before.server.CPU).Seconds() / wall
	f.memory, f.consumers = after.server.Peak, after.Consumers
	return nil
}

// rareLeaves is the number of agents that have work for the first time.
const rareLeaves = 200

// settleTimeout bounds the wait for a server that does not answer.
const settleTimeout = 2 * time.Minute

// restart ends the benchmark's own server without a warning, starts it again on
// its store, and waits for an outcome.
func (f *fleet) restart(ctx context.Context) error {
	if err := f.server.end(); err != nil {
		return err
	}
	began := time.Now()
	if err := f.startServer(ctx, strings.TrimPrefix(f.server.url, "nats://")); err != nil {
		return err
	}
	for f.leaf(ctx) != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) > restartTimeout {
			return fmt.Errorf("no outcome within %s of the server's restart", restartTimeout)
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	f.back = time.Since(began)
	return nil
}

// restartTimeout bounds the wait for an outcome after the restart of a server.
const restartTimeout = 5 * time.Minute
