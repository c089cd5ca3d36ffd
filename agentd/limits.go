package agentd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// A bound on a tree is kept in a tally that all its runs share: one message for each change, stored only after
// the one that it was made of. What is counted and then not done, because a worker died, stays counted: a
// bound may be reached early, and is never passed. A run without bounds reads and writes no tally.

// scopes are the bounds that a run is in: those of its caller, and its agent's own.
func scopes(above []subjects.Scope, own configs.Limits, p subjects.Path) []run.Scope {
	mine := subjects.Scope{Path: p, Limits: subjects.Limits{Agents: own.MaxAgents, Turns: own.MaxTurns, Tokens: own.MaxTokens}}
	all := make([]subjects.Scope, 0, len(above)+1)
	for _, s := range above {
		if s.Path == p { // a submission's
			mine.Limits = mine.Within(s.Limits)
			continue
		}
		all = append(all, s)
	}
	if mine.Limits != (subjects.Limits{}) {
		all = append(all, mine)
	}
	var out []run.Scope
	for _, s := range all {
		out = append(out, run.Scope{Path: s.Path.String(), MaxAgents: s.Agents, MaxTurns: s.Turns, MaxTokens: s.Tokens})
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
		out = append(out, subjects.Scope{Path: p, Limits: subjects.Limits{Agents: s.MaxAgents, Turns: s.MaxTurns, Tokens: s.MaxTokens}})
	}
	return out, nil
}

// broke is the error of a model call for which a bound has no room.
type broke string

// Error is what the outcome says.
func (e broke) Error() string { return string(e) }

// errUncounted is that of a model call which the bus could not count. The trigger is given back.
var errUncounted = errors.New("the model call could not be counted")

// afford counts the model call that is about to be made; the error is broke if it may not be, and errUncounted
// if that could not be found out.
func (w *Worker) afford(ctx context.Context, h *history, scopes []run.Scope) error {
	for _, s := range slices.Backward(scopes) {
		if s.MaxTokens == 0 && s.MaxTurns == 0 {
			continue
		}
		subject, err := tally(h.run, s)
		if err != nil {
			return err
		}
		refusal := ""
		err = w.amend(ctx, subject, func(t run.Tally) (run.Tally, bool) {
			t, refusal = t.Ask(s)
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

// account counts an answer and the calls that it makes. Those for which a bound has no room are refused, the
// last ones first.
func (w *Worker) account(ctx context.Context, h *history, t *trigger, scopes []run.Scope, tokens int, calls []run.Call) error {
	want := 0
	for _, c := range calls {
		if !c.Failed() {
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
		subject, err := tally(h.run, s)
		if err != nil {
			return err
		}
		g := run.Grant{By: h.run.Path.String(), Turn: len(h.state.Turns) + 1, Calls: granted}
		err = w.amend(ctx, subject, func(t run.Tally) (run.Tally, bool) { return t.Refund(g, counted[i]), true })
		if err != nil {
			return err
		}
	}
	for i := len(calls) - 1; i >= 0 && want > granted; i-- {
		if !calls[i].Failed() {
			calls[i] = tool.Refused(calls[i], full.Full())
			want--
		}
	}
	return nil
}

// count counts in one scope and returns for how many of the calls it has room.
func (w *Worker) count(ctx context.Context, h *history, t *trigger, s run.Scope, tokens, calls int) (granted int, _ error) {
	if (s.MaxTokens == 0 || tokens == 0) && (s.MaxAgents == 0 || calls == 0) {
		return calls, nil
	}
	subject, err := tally(h.run, s)
	if err != nil {
		return 0, err
	}
	g, already := run.Grant{By: h.run.Path.String(), Turn: len(h.state.Turns) + 1, Calls: calls}, 0
	if t.Count > 1 {
		ms, err := w.conn.Since(ctx, subject, 0)
		if err != nil {
			return 0, err
		}
		for _, m := range ms {
			if n, ok := run.DecodeTally(m.Body).Granted(g.By, g.Turn); ok {
				already = n
			}
		}
	}
	err = w.amend(ctx, subject, func(t run.Tally) (run.Tally, bool) {
		t, granted = t.Answer(s, g, tokens, already)
		return t, true
	})
	return granted, err
}

// tally is the subject of a scope's tally.
func tally(r subjects.Run, s run.Scope) (string, error) {
	p, err := subjects.ParsePath(s.Path)
	return r.Space.Tally(r.Tree, p), err
}
