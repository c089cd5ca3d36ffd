package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/bus"
)

// attempt is a step that may have been stored.
type attempt struct {
	ratelimit.Update
	after    ratelimit.State
	decision ratelimit.Decision
}

// step brings what has ended and what waits to the bus, against whatever others
// do there, and lets in who may begin. Next is when it has to be done again in
// any case.
func (g *gate) step(ctx context.Context) (next time.Time, err error) {
	for {
		if next, stored := g.wasStored(); stored {
			return next, nil
		}
		try, state, rev, err := g.attempt()
		if err != nil {
			return next, err
		}
		stored := rev
		if try.after.Step != state.Step {
			value, err := json.Marshal(try.after)
			if err != nil {
				return next, err
			}
			if stored, err = g.on.Swap(ctx, rev, value); err != nil {
				refused, ok := errors.AsType[*bus.ConflictError](err)
				if !ok {
					return next, err
				}
				if refused.Last < rev {
					// somebody has removed the bucket:
					// revisions begin anew
					g.forget()
				}
				if err := g.read(ctx, refused.Last); err != nil {
					return next, err
				}
				continue
			}
		}
		g.settle(try, stored)
		return try.decision.Next, nil
	}
}

// attempt is what a step makes of the state as it is known. One that changes
// nothing keeps the state's name.
func (g *gate) attempt() (*attempt, ratelimit.State, uint64, error) {
	st, state, rev := g.snapshot()
	try := &attempt{Update: st}
	try.after, try.decision = state.Apply(g.limits, st, time.Now())
	was, err := json.Marshal(state)
	if err != nil {
		return nil, state, rev, err
	}
	value, err := json.Marshal(try.after)
	if err != nil || string(value) == string(was) {
		return try, state, rev, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps++
	try.after.Step = g.worker + "#" + strconv.Itoa(g.steps)
	g.tried = try
	return try, state, rev, nil
}

// wasStored reports whether the last attempt turns out to have been stored,
// though its answer was lost, and ends it then.
func (g *gate) wasStored() (next time.Time, ok bool) {
	g.mu.Lock()
	try, state, rev := g.tried, g.state, g.rev
	g.mu.Unlock()
	if try == nil || state.Step != try.after.Step {
		return time.Time{}, false
	}
	g.settle(try, rev)
	return try.decision.Next, true
}

func (g *gate) snapshot() (ratelimit.Update, ratelimit.State, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := ratelimit.Update{
		Worker:  g.worker,
		Held:    g.held,
		Probing: g.probing,
		Want:    len(g.line),
		Ended:   slices.Clone(g.ended),
	}
	if g.over {
		st.Want = 0
	}
	return st, g.state, g.rev
}

// settle lets in whom a stored step allows. Who has left the line since then
// leaves room: the next step says so.
func (g *gate) settle(try *attempt, rev uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := try.decision
	g.learn(try.after, rev)
	g.tried, g.last = nil, d
	g.ended = g.ended[len(try.Ended):]
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

// learn takes what was stored, unless something later is known. The caller
// holds the lock.
func (g *gate) learn(s ratelimit.State, rev uint64) {
	if rev >= g.rev {
		g.state, g.rev = s, rev
	}
}

// forget makes whatever is learnt next count.
func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state, g.rev = ratelimit.State{}, 0
}

// read asks the bus for the state, which holds the message that refused a
// write. The watch may have told more by the time of the answer, and tells it
// once.
func (g *gate) read(ctx context.Context, must uint64) error {
	value, rev, err := g.on.Read(ctx, must)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.learn(ratelimit.Decode(value), rev)
	return nil
}

// watch learns what others do.
func (g *gate) watch(ctx context.Context) {
	insist(ctx, g.log, "limits of a provider", func() error {
		return g.on.Watch(ctx, func(value []byte, rev uint64) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if rev > g.rev {
				g.learn(ratelimit.Decode(value), rev)
				g.wake()
			}
		})
	})
}
