package budget

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// ErrUncounted reports that the bus could not count a model call or a refund.
// The worker gives its trigger back.
var ErrUncounted = errors.New("model call not counted")

// Tallies changes the tallies of the runs of one worker. It is safe for
// concurrent use.
type Tallies struct{ batcher }

// New returns the tallies on a bus.
func New(conn *bus.Conn) *Tallies {
	return &Tallies{batcher{conn: conn, queues: map[string]*queue{}}}
}

// ErrStopped reports that the worker drains before there was room.
var ErrStopped = errors.New("stopped before there was room in the budget")

// Turn is one turn of a run with a budget.
type Turn struct {
	Run subjects.Run
	// Number is the number of the run's turn, from 1.
	Number int
	// Scopes are the scopes that the run is in, the outermost first.
	Scopes []subjects.Scope
	// Redelivered says that an earlier delivery of the trigger may have
	// recorded the turn.
	Redelivered bool
	// Deadline is the run's. Its reservations end by then.
	Deadline time.Time
}

// Starts is the number of runs that a turn starts.
type Starts struct {
	// Runs is the number of runs with a model.
	Runs int
	// Tools is the number of tool runs.
	Tools int
}

// Granted is the part of the runs of a turn that its scopes have room for.
type Granted struct {
	Starts
	// Agents and ToolCalls have the bound of the scope with the least room,
	// if there is room for fewer runs, or tool runs, than the turn wants.
	// They are nil otherwise.
	Agents, ToolCalls *ExceededError
}

// Scopes returns the scopes of the run at p: those of its caller, then its own.
// A submission's budget arrives as the root's scope. It narrows the own budget.
func Scopes(callers []subjects.Scope, own subjects.Budget, p subjects.Path) []subjects.Scope {
	var all []subjects.Scope
	for _, s := range callers {
		if s.Path == p {
			own = own.Within(s.Budget)
			continue
		}
		all = append(all, s)
	}
	if own != (subjects.Budget{}) {
		all = append(all, subjects.Scope{Path: p, Budget: own})
	}
	return all
}

func (t Turn) subject(s subjects.Scope) string { return t.Run.Space.Tally(t.Run.Tree, s.Path) }

// grant returns the grant of a number of runs and of tool runs to the turn.
func (t Turn) grant(n Starts) Grant {
	return Grant{By: t.Run.Path, Turn: t.Number, Calls: n.Runs, ToolCalls: n.Tools}
}

// Reserve counts the model call that a turn is about to make, and reserves the
// tokens of its estimate. The error is an *ExceededError if a scope has no room
// for it, and ErrFull if there may be room later. It wraps ErrUncounted if the
// bus could not count it.
func (b *Tallies) Reserve(ctx context.Context, t Turn, e Estimate) error {
	_, err := b.reserveAll(ctx, t, e)
	return err
}

// reserveAll counts a model call in all scopes, or in none after ErrFull. The
// error is that of the scope with the index refused.
func (b *Tallies) reserveAll(ctx context.Context, t Turn, e Estimate) (refused int, _ error) {
	for i, s := range slices.Backward(t.Scopes) {
		if s.Tokens == 0 && s.Turns == 0 {
			continue
		}
		if err := b.reserve(ctx, t, s, e); err != nil {
			unmade := errors.Is(err, ErrFull)
			return i, cmp.Or(b.release(ctx, t, t.Scopes[i+1:], unmade), err)
		}
	}
	return 0, nil
}

// reserve counts a model call in one scope.
func (b *Tallies) reserve(ctx context.Context, t Turn, s subjects.Scope, e Estimate) error {
	var refused error
	err := b.update(ctx, t.subject(s), func(tally Tally) (Tally, bool) {
		r := Reservation{By: t.Run.Path, Turn: t.Number, Until: t.Deadline}
		tally, refused = tally.Reserve(s.Budget, r, e, b.conn.Clocks.Now())
		return tally, refused == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncounted, err)
	}
	return refused
}

// roomPoll is the time after which Await looks again though it was not told of
// a change. The bus may have lost the message, and reservations expire.
const roomPoll = 5 * time.Second

// Await waits until there is room for a turn for which Reserve has found none,
// and reserves it. It returns the errors of Reserve other than ErrFull. It
// returns the cause of the end of ctx, and ErrStopped once stop is closed.
func (b *Tallies) Await(ctx context.Context, t Turn, e Estimate, stop <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed, err := b.watch(ctx, t)
	if err != nil {
		return err
	}
	poll := time.NewTicker(roomPoll)
	defer poll.Stop()
	for {
		full, err := b.reserveAll(ctx, t, e)
		if !errors.Is(err, ErrFull) {
			return err
		}
		// An attempt changes the tallies of the scopes inside the full
		// one, and must not wake itself.
		select {
		case <-changed[full]:
		case <-poll.C:
		case <-stop:
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch returns a channel for each scope of a turn, which becomes ready when
// the scope's tally changes, until ctx ends.
func (b *Tallies) watch(ctx context.Context, t Turn) ([]chan struct{}, error) {
	all := make([]chan struct{}, len(t.Scopes))
	for i, s := range t.Scopes {
		changed := make(chan struct{}, 1)
		all[i] = changed
		stored := t.Run.Space.Live(t.subject(s))
		if err := b.conn.Watch(ctx, stored, func(bus.Stored) { pause.Notify(changed) }); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUncounted, err)
		}
	}
	return all, nil
}

// Release ends the reservations of a turn that has got no answer. The model
// call stays counted. An error wraps ErrUncounted.
func (b *Tallies) Release(ctx context.Context, t Turn) error {
	return b.release(ctx, t, t.Scopes, false)
}

// release ends the reservations of a turn in some scopes. A model call that is
// unmade is not counted any more.
func (b *Tallies) release(ctx context.Context, t Turn, scopes []subjects.Scope, unmade bool) error {
	for _, s := range scopes {
		if s.Tokens == 0 && (s.Turns == 0 || !unmade) {
			continue
		}
		err := b.update(ctx, t.subject(s), func(tally Tally) (Tally, bool) {
			tally, stores := tally.Release(t.Run.Path, t.Number, b.conn.Clocks.Now())
			if unmade {
				tally.Turns--
			}
			return tally, stores || unmade
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUncounted, err)
		}
	}
	return nil
}

// Record counts the tokens of a turn's answer in place of those that it had
// reserved. It grants the turn as many of the wanted runs as all scopes have
// room for. An error does not wrap ErrUncounted.
func (b *Tallies) Record(ctx context.Context, t Turn, tokens int, wanted Starts) (Granted, error) {
	all := Granted{Starts: wanted}
	counted := make([]Grant, len(t.Scopes))
	for i, s := range slices.Backward(t.Scopes) {
		g, err := b.record(ctx, t, s, tokens, t.grant(all.Starts))
		if err != nil {
			return Granted{}, err
		}
		counted[i] = g
		if g.Calls < all.Runs {
			all.Runs, all.Agents = g.Calls, &ExceededError{Used: s.Agents, Limit: s.Agents, Unit: "agents"}
		}
		if g.ToolCalls < all.Tools {
			exceeded := &ExceededError{Used: s.ToolCalls, Limit: s.ToolCalls, Unit: "tool calls"}
			all.Tools, all.ToolCalls = g.ToolCalls, exceeded
		}
	}
	// An outer scope may have granted less than the scopes inside it.
	granted := t.grant(all.Starts)
	for i, s := range t.Scopes {
		if granted.covers(counted[i]) {
			continue
		}
		err := b.update(ctx, t.subject(s), func(tally Tally) (Tally, bool) {
			return tally.Refund(granted, counted[i]), true
		})
		if err != nil {
			return Granted{}, err
		}
	}
	return all, nil
}

// record counts an answer in one scope. It returns the part of the wanted grant
// that the scope has room for.
func (b *Tallies) record(ctx context.Context, t Turn, s subjects.Scope, tokens int, g Grant) (granted Grant, _ error) {
	counts := s.Agents > 0 && g.Calls > 0 || s.ToolCalls > 0 && g.ToolCalls > 0
	if s.Tokens == 0 && !counts {
		return g, nil
	}
	var already Grant
	if t.Redelivered {
		ms, err := b.conn.ReadByScan(ctx, t.subject(s), 0)
		if err != nil {
			return Grant{}, err
		}
		already = lastGrant(ms, g)
	}
	err := b.update(ctx, t.subject(s), func(tally Tally) (Tally, bool) {
		tally, granted = tally.Record(s.Budget, g, tokens, already)
		return tally, true
	})
	return granted, err
}

// Refund lowers the grant of a turn to the number of runs that the turn starts.
// The grant was stored after the sequence after, that of the turn's trigger. An
// error wraps ErrUncounted.
func (b *Tallies) Refund(ctx context.Context, t Turn, started Starts, after uint64) error {
	for _, s := range t.Scopes {
		if s.Agents == 0 && s.ToolCalls == 0 {
			continue
		}
		if err := b.refund(ctx, t.subject(s), t.grant(started), after); err != nil {
			return fmt.Errorf("%w: %w", ErrUncounted, err)
		}
	}
	return nil
}

// refund lowers a grant in one tally. Another worker may do the same at this
// moment, or may have done it and died. The grant and the message to write
// after come from one read, so no refund is made twice.
func (b *Tallies) refund(ctx context.Context, subject string, g Grant, after uint64) error {
	for minSeq := uint64(0); ; {
		ms, err := b.conn.ScanUntil(ctx, subject, after, minSeq)
		if err != nil {
			return err
		}
		granted := lastGrant(ms, g)
		if g.covers(granted) {
			return nil
		}
		last := ms[len(ms)-1]
		body, err := json.Marshal(Decode(last.Body).Next().Refund(g, granted))
		if err != nil {
			return err
		}
		_, err = b.conn.Write(ctx, bus.Message{Subject: subject, Body: body, Fence: bus.After(subject, last.Seq)})
		conflict, ok := errors.AsType[*bus.ConflictError](err)
		if !ok {
			return err
		}
		minSeq = conflict.Last
	}
}

// lastGrant returns the newest grant that these messages have of the turn of g.
// It is zero if there is none.
func lastGrant(ms []bus.Stored, g Grant) (last Grant) {
	for _, m := range ms {
		if granted, ok := Decode(m.Body).Granted(g.By, g.Turn); ok {
			last = granted
		}
	}
	return last
}
