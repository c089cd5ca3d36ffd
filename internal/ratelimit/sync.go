package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
)

// attempt is an update that may have been stored.
type attempt struct {
	Update
	// from is the revision that the update was applied to.
	from uint64
	// after is the state with the update applied, and decision its result.
	after    State
	decision Decision
	// value is the encoded state; nil if the update changed nothing.
	value []byte
}

// sync brings the results and the waiting requests of this worker to the stored
// state, and admits the requests that may begin. It tries again on a conflict.
// Next is the time of the next sync that is due though nothing happens; zero is
// never.
func (l *Limiter) sync(ctx context.Context) (next time.Time, err error) {
	for {
		if next, stored := l.wasStored(); stored {
			return next, nil
		}
		try, err := l.attempt()
		if err != nil {
			return next, err
		}
		revision := try.from
		if try.value != nil {
			revision, err = l.register.Swap(ctx, try.from, try.value)
			if conflict, ok := errors.AsType[*bus.ConflictError](err); ok {
				if err := l.reread(ctx, try.from, conflict.Last); err != nil {
					return next, err
				}
				continue
			}
			if err != nil {
				return next, err
			}
		}
		l.admit(try, revision)
		return try.decision.Next, nil
	}
}

// reread reads the state that refused an update. A revision below the one that
// the update was applied to means that the bucket was removed, and that
// revisions begin anew.
func (l *Limiter) reread(ctx context.Context, from, last uint64) error {
	if last < from {
		l.mu.Lock()
		l.state, l.revision = State{}, 0
		l.mu.Unlock()
	}
	return l.read(ctx, last)
}

// attempt applies this worker's update to the state that it knows. A state that
// the update changes gets a new Step.
func (l *Limiter) attempt() (*attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := Update{Worker: l.worker, Held: l.held, Probing: l.probing, Ended: slices.Clone(l.ended)}
	if !l.closed {
		u.Want = len(l.queue)
	}
	try := &attempt{Update: u, from: l.revision}
	try.after, try.decision = l.state.Apply(l.settings, u, l.clocks.Now())
	before, err := json.Marshal(l.state)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(try.after)
	if err != nil || string(after) == string(before) {
		return try, err
	}
	l.attempts++
	try.after.Step = l.worker + "#" + strconv.Itoa(l.attempts)
	try.value, err = json.Marshal(try.after)
	l.pending = try
	return try, err
}

// wasStored reports whether the pending update turns out to have been stored
// although its acknowledgement was lost. If so, it admits requests by it.
func (l *Limiter) wasStored() (next time.Time, ok bool) {
	l.mu.Lock()
	try := l.pending
	state, revision := l.state, l.revision
	l.mu.Unlock()
	if try == nil || state.Step != try.after.Step {
		return time.Time{}, false
	}
	l.admit(try, revision)
	return try.decision.Next, true
}

// admit admits the requests that a stored update allows. Requests that have
// left the queue since then leave room, which the next sync brings back.
func (l *Limiter) admit(try *attempt, revision uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := try.decision
	l.learn(try.after, revision)
	l.pending = nil
	l.last = d
	l.ended = l.ended[len(try.Ended):]
	n := min(d.Granted, len(l.queue))
	for _, admitted := range l.queue[:n] {
		admitted <- d.Probe
	}
	l.queue = l.queue[n:]
	l.held += n
	l.probing = l.probing || d.Probe && n > 0
	if n < d.Granted {
		pause.Notify(l.work)
	}
}

// learn keeps a stored state, unless a later one is known. The caller holds the
// lock.
func (l *Limiter) learn(s State, revision uint64) {
	if revision >= l.revision {
		l.state, l.revision = s, revision
	}
}

// read asks the bus for the state at minSeq or later. The watch may have
// delivered a later state by the time of the answer, and delivers it only once.
func (l *Limiter) read(ctx context.Context, minSeq uint64) error {
	value, revision, err := l.register.Read(ctx, minSeq)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learn(Decode(value), revision)
	return nil
}

// watch learns the states that other workers store, until ctx ends. When the
// watch breaks, the bucket may be another one: the state is read anew.
func (l *Limiter) watch(ctx context.Context) {
	l.retry(ctx, func() error {
		err := l.register.Watch(ctx, func(value []byte, revision uint64) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if revision > l.revision {
				l.learn(Decode(value), revision)
				pause.Notify(l.work)
			}
		})
		value, revision, failed := l.register.Read(ctx, 0)
		if failed != nil {
			return failed
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.state, l.revision = Decode(value), revision
		pause.Notify(l.work)
		return err
	})
}
