package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
func scopes(above []subjects.Scope, own subjects.Budget, p subjects.Path) []run.Scope {
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
	var out []run.Scope
	for _, s := range all {
		out = append(
			out,
			run.Scope{Path: s.Path.String(), MaxAgents: s.Agents, MaxTurns: s.Turns, MaxTokens: s.Tokens},
		)
	}
	return out
}

// header is what a child's call says of the scopes that it is in.
func header(scopes []run.Scope) ([]subjects.Scope, error) {
	var out []subjects.Scope
	for _, s := range scopes {
		p, err := subjects.ParsePath(s.Path)
		if err != nil {
			return nil, err
		}
		out = append(
			out,
			subjects.Scope{
				Path:   p,
				Budget: subjects.Budget{Agents: s.MaxAgents, Turns: s.MaxTurns, Tokens: s.MaxTokens},
			},
		)
	}
	return out, nil
}

// broke is the error of a model call for which a bound has no room.
type broke string

// Error is what the outcome says.
func (e broke) Error() string { return string(e) }

// errUncounted is that of a model call which the bus could not count. The
// trigger is given back.
var errUncounted = errors.New("the model call could not be counted")

// afford counts the model call that is about to be made; the error is broke if
// it may not be, and errUncounted if that could not be found out.
func (w *Worker) afford(ctx context.Context, h *history, scopes []run.Scope) error {
	for _, s := range slices.Backward(scopes) {
		if s.MaxTokens == 0 && s.MaxTurns == 0 {
			continue
		}
		refusal := ""
		err := w.amend(ctx, h.run, s, func(t run.Tally) (run.Tally, bool) {
			t, refusal = t.CountTurn(s)
			return t, refusal == "" && s.MaxTurns > 0
		})
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errUncounted, err)
		case refusal != "":
			return broke(refusal)
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
	scopes []run.Scope,
	tokens int,
	calls []run.Call,
) error {
	want := 0
	for _, c := range calls {
		if c.MakesRun() {
			want++
		}
	}
	granted, full := want, run.Scope{}
	counted := make([]int, len(scopes))
	for i := len(scopes) - 1; i >= 0; i-- { // the innermost first
		var err error
		if counted[i], err = w.count(ctx, h, t, scopes[i], tokens, granted); err != nil {
			return err
		}
		if counted[i] < granted {
			granted, full = counted[i], scopes[i]
		}
	}
	for i, s := range scopes {
		if counted[i] == granted {
			continue
		}
		g := h.grant(granted)
		err := w.amend(ctx, h.run, s, func(t run.Tally) (run.Tally, bool) { return t.Refund(g, counted[i]), true })
		if err != nil {
			return err
		}
	}
	for i := len(calls) - 1; i >= 0 && want > granted; i-- {
		if calls[i].MakesRun() {
			calls[i] = tool.Refused(calls[i], full.Refusal())
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
	s run.Scope,
	tokens, calls int,
) (granted int, _ error) {
	if (s.MaxTokens == 0 || tokens == 0) && (s.MaxAgents == 0 || calls == 0) {
		return calls, nil
	}
	g, already := h.grant(calls), 0
	if t.Count > 1 {
		var err error
		if already, err = w.granted(ctx, h.run, s, g); err != nil {
			return 0, err
		}
	}
	err := w.amend(ctx, h.run, s, func(t run.Tally) (run.Tally, bool) {
		t, granted = t.CountAnswer(s, g, tokens, already)
		return t, true
	})
	return granted, err
}

// grant is what the run's next turn may call.
func (h *history) grant(calls int) run.Grant {
	return run.Grant{By: h.run.Path.String(), Turn: len(h.state.Turns) + 1, Calls: calls}
}

// granted is how many calls a turn was granted before, by a worker that may
// have died then.
func (w *Worker) granted(ctx context.Context, r subjects.Run, s run.Scope, g run.Grant) (calls int, _ error) {
	subject, err := tally(r, s)
	if err != nil {
		return 0, err
	}
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
	g := run.Grant{By: h.run.Path.String(), Turn: len(h.state.Turns), Calls: last.RunCount()}
	for _, s := range h.state.Start().Scopes {
		if s.MaxAgents == 0 {
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
func (w *Worker) shrink(ctx context.Context, r subjects.Run, s run.Scope, g run.Grant, after uint64) error {
	subject, err := tally(r, s)
	if err != nil {
		return err
	}
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
		body, err := json.Marshal(run.DecodeTally(last.Body).Next().Refund(g, was))
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
func lastGrant(ms []bus.Stored, g run.Grant) (calls int) {
	for _, m := range ms {
		if n, ok := run.DecodeTally(m.Body).Granted(g.By, g.Turn); ok {
			calls = n
		}
	}
	return calls
}

// tally is the subject of a scope's tally.
func tally(r subjects.Run, s run.Scope) (string, error) {
	p, err := subjects.ParsePath(s.Path)
	return r.Space.Tally(r.Tree, p), err
}
