package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/limit"
	"github.com/axebus/axe/bus"
)

// step brings what has ended and what waits to the bus, against whatever others do there, and lets in who may
// begin. Next is when it has to be done again in any case.
func (g *gate) step(ctx context.Context) (next time.Time, err error) {
	for {
		st, state, rev := g.snapshot()
		after, d := state.Apply(g.limits, st, time.Now())
		was, err := json.Marshal(state)
		if err != nil {
			return next, err
		}
		value, err := json.Marshal(after)
		if err != nil {
			return next, err
		}
		stored := rev
		if string(value) != string(was) {
			stored, err = g.on.Swap(ctx, rev, value)
		}
		if refused, ok := errors.AsType[*bus.ConflictError](err); ok {
			if refused.Last < rev {
				g.forget() // somebody has removed the bucket: revisions begin anew
			}
			if err := g.read(ctx, refused.Last); err != nil {
				return next, err
			}
			continue
		}
		if err != nil {
			return next, err
		}
		g.settle(st, after, stored, d)
		return d.Next, nil
	}
}

func (g *gate) snapshot() (limit.Step, limit.State, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := limit.Step{Worker: g.worker, Held: g.held, Probing: g.probing, Want: len(g.line), Ended: slices.Clone(g.ended)}
	if g.over {
		st.Want = 0
	}
	return st, g.state, g.rev
}

// settle lets in whom a stored step allows. Who has left the line since then leaves room: the next step says so.
func (g *gate) settle(st limit.Step, after limit.State, rev uint64, d limit.Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learn(after, rev)
	g.last = d
	g.ended = g.ended[len(st.Ended):]
	n := min(d.Granted, len(g.line))
	for _, in := range g.line[:n] {
		in <- d.Probe
	}
	g.line = g.line[n:]
	g.held += n
	g.probing = g.probing || d.Probe && n > 0
	if n < d.Granted {
		g.wake()
	}
}

// learn takes what was stored, unless something later is known. The caller holds the lock.
func (g *gate) learn(s limit.State, rev uint64) {
	if rev >= g.rev {
		g.state, g.rev = s, rev
	}
}

// forget makes whatever is learnt next count.
func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state, g.rev = limit.State{}, 0
}

// read asks the bus for the state, which holds the message that refused a write. The watch may have told more
// by the time of the answer, and tells it once.
func (g *gate) read(ctx context.Context, must uint64) error {
	value, rev, err := g.on.Read(ctx, must)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learn(limit.Decode(value), rev)
	return nil
}

// watch learns what others do.
func (g *gate) watch(ctx context.Context) {
	g.retry(ctx, func() error {
		return g.on.Watch(ctx, func(value []byte, rev uint64) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if rev > g.rev {
				g.learn(limit.Decode(value), rev)
				g.wake()
			}
		})
	})
}
