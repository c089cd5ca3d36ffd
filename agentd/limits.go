package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// A bound on a tree is kept in a tally that all its runs share: one message for
// each change, stored only after the one that it was made of. What is counted
// and then not done, because a worker died, stays counted: a bound may be
// reached early, and is never passed. A run without bounds reads and writes no
// tally.

// scopes are the bounds that a run is in: those of its caller, and its agent's
// own.
func scopes(above []subjects.Scope, own subjects.Budget, p subjects.Path) []subjects.Scope {
	mine := subjects.Scope{Path: p, Budget: own}
	all := make([]subjects.Scope, 0, len(above)+1)
	for _, s := range above {
		if s.Path == p { // a submission's
			mine.Budget = mine.Within(s.Budget)
			continue
		}
		all = append(all, s)
	}
	if mine.Budget != (subjects.Budget{}) {
		all = append(all, mine)
	}
	return all
}

// errUncounted is that of a model call which the bus could not count. The
// trigger is given back.
var errUncounted = errors.New("the model call could not be counted")

// afford counts the model call that is about to be made; the error is a
// *budget.ExceededError if it may not be, and errUncounted if that could not be found out.
func (w *Worker) afford(ctx context.Context, h *history, scopes []subjects.Scope) error {
	for _, s := range slices.Backward(scopes) {
		if s.Tokens == 0 && s.Turns == 0 {
			continue
		}
		var refusal *budget.ExceededError
		err := w.amend(ctx, h.run, s, func(t budget.Tally) (budget.Tally, bool) {
			t, refusal = t.ReserveTurn(s.Budget)
			return t, refusal == nil && s.Turns > 0
		})
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errUncounted, err)
		case refusal != nil:
			return refusal
		}
	}
	return nil
}

// account counts an answer and the calls that it makes. Those for which a bound
// has no room are refused, the last ones first.
func (w *Worker) account(
	ctx context.Context,
	h *history,
	t *trigger,
	scopes []subjects.Scope,
	tokens int,
	calls []run.Call,
) error {
	want := 0
	for _, c := range calls {
		if c.MakesRun() {
			want++
		}
	}
	granted := want
	var full *budget.ExceededError
	counted := make([]int, len(scopes))
	for i := len(scopes) - 1; i >= 0; i-- { // the innermost first
		var err error
		if counted[i], err = w.count(ctx, h, t, scopes[i], tokens, granted); err != nil {
			return err
		}
		if counted[i] < granted {
			granted = counted[i]
			full = &budget.ExceededError{Used: scopes[i].Agents, Limit: scopes[i].Agents, Unit: "agents"}
		}
	}
	for i, s := range scopes {
		if counted[i] == granted {
			continue
		}
		g := h.grant(granted)
		err := w.amend(ctx, h.run, s, func(t budget.Tally) (budget.Tally, bool) { return t.Refund(g, counted[i]), true })
		if err != nil {
			return err
		}
	}
	for i := len(calls) - 1; i >= 0 && want > granted; i-- {
		if calls[i].MakesRun() {
			calls[i] = tool.Refused(calls[i], full.Error())
			want--
		}
	}
	return nil
}

// count counts in one scope and returns for how many of the calls it has room.
func (w *Worker) count(
	ctx context.Context,
	h *history,
	t *trigger,
	s subjects.Scope,
	tokens, calls int,
) (granted int, _ error) {
	if (s.Tokens == 0 || tokens == 0) && (s.Agents == 0 || calls == 0) {
		return calls, nil
	}
	g, already := h.grant(calls), 0
	if t.Count > 1 {
		var err error
		if already, err = w.granted(ctx, h.run, s, g); err != nil {
			return 0, err
		}
	}
	err := w.amend(ctx, h.run, s, func(t budget.Tally) (budget.Tally, bool) {
		t, granted = t.Record(s.Budget, g, tokens, already)
		return t, true
	})
	return granted, err
}

// grant is what the run's next turn may call.
func (h *history) grant(calls int) budget.Grant {
	return budget.Grant{By: h.run.Path, Turn: len(h.state.Turns) + 1, Calls: calls}
}

// granted is how many calls a turn was granted before, by a worker that may
// have died then.
func (w *Worker) granted(ctx context.Context, r subjects.Run, s subjects.Scope, g budget.Grant) (calls int, _ error) {
	subject := tally(r, s)
	ms, err := w.conn.ReadByScan(ctx, subject, 0)
	return lastGrant(ms, g), err
}

// giveBackGrants gives back what the last turn was granted and will never call,
// since its supervisor or a person had nothing of it carried out. It is done
// before the next turn is asked for, which may need the room.
func (w *Worker) giveBackGrants(ctx context.Context, h *history) error {
	if len(h.state.Turns) == 0 {
		return nil
	}
	last := h.state.Turns[len(h.state.Turns)-1]
	if !last.HasUnusedGrant() {
		return nil
	}
	g := budget.Grant{By: h.run.Path, Turn: len(h.state.Turns), Calls: last.RunCount()}
	for _, s := range h.state.Start().Scopes {
		if s.Agents == 0 {
			continue
		}
		if err := w.shrink(ctx, h.run, s, g, last.Entry.Trigger); err != nil {
			return fmt.Errorf("%w: %w", errUncounted, err)
		}
	}
	return nil
}

// shrink makes what a turn was granted smaller, after a message. Others may do
// the same at this moment, or have done it and died: what the tally says of the
// turn, and the message that it is changed with, are of one read, so that
// nothing is given back twice.
func (w *Worker) shrink(ctx context.Context, r subjects.Run, s subjects.Scope, g budget.Grant, after uint64) error {
	subject := tally(r, s)
	for must := uint64(0); ; {
		ms, err := w.conn.ScanUntil(ctx, subject, after, must)
		if err != nil {
			return err
		}
		was := lastGrant(ms, g)
		if was <= g.Calls {
			return nil
		}
		last := ms[len(ms)-1]
		body, err := json.Marshal(budget.Decode(last.Body).Next().Refund(g, was))
		if err != nil {
			return err
		}
		_, err = w.conn.Write(ctx, bus.Message{Subject: subject, Body: body, Fence: bus.After(subject, last.Seq)})
		refused, ok := errors.AsType[*bus.ConflictError](err)
		if !ok {
			return err
		}
		must = refused.Last
	}
}

// lastGrant is how many calls the messages of a tally say that a turn was
// granted.
func lastGrant(ms []bus.Stored, g budget.Grant) (calls int) {
	for _, m := range ms {
		if n, ok := budget.Decode(m.Body).Granted(g.By, g.Turn); ok {
			calls = n
		}
	}
	return calls
}

// tally is the subject of a scope's tally.
func tally(r subjects.Run, s subjects.Scope) string { return r.Space.Tally(r.Tree, s.Path) }
