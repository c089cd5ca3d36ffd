package history

import (
	"context"
	"encoding/json"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Outcomes count everywhere by the rules of this file: for the caller of a run,
// for the run's own worker, and for people. Without bus.Config.Signers all of
// them do.

// Judge returns the event of an outcome in a reply slot of a run as it is, or
// run.OutcomeRefused if the outcome does not count. It returns every other
// event as it is. The state is that before the event. Later are messages after
// m, as far as they were read.
//
// The run's own log goes before this reader's judgement, since only workers of
// the run's agent can write it: an outcome that the writer of a later entry had
// read counts as the entry says. So the fold of a run stays the same when
// grants end, or when workers begin to require signatures.
func (r Reader) Judge(
	ctx context.Context, s run.State, e run.Event, m bus.Stored, later []bus.Stored,
) (run.Event, error) {
	replied, ok := e.(run.Replied)
	if !ok || !r.conn.Grants.Required() || replied.Seq <= s.Seq {
		return e, nil
	}
	at, err := r.conn.Space().Parse(m.Subject)
	if err != nil {
		return nil, err
	}
	by := at.Run
	counts, settled, err := r.settle(ctx, by, replied.Seq, later)
	if err != nil {
		return nil, err
	}
	if !settled {
		counts, err = r.repliesTo(ctx, by, s, replied, m)
	}
	if err == nil && !counts {
		return run.OutcomeRefused{Meta: replied.Meta}, nil
	}
	return e, err
}

// repliesTo reports whether an outcome counts as that of the call of its reply
// slot. A view drops the calls of a run that has ended, whose forks may end
// later: then the outcome counts as that of the agent that it names.
func (r Reader) repliesTo(
	ctx context.Context, by subjects.Run, s run.State, e run.Replied, m bus.Stored,
) (bool, error) {
	call, called := s.Turns.Call(e.Turn, e.Index)
	if !called {
		call.Agent = e.Outcome.Agent
	}
	child, err := by.At(call.Agent, by.Path.Child(e.Turn, e.Index))
	if err != nil {
		return false, nil //nolint:nilerr // there is no such run
	}
	counts, err := r.Counts(ctx, child, m)
	return counts && (called || s.OutcomeStored), err
}

// settle looks for the log entry that decides about an outcome with a sequence.
func (r Reader) settle(
	ctx context.Context, by subjects.Run, seq uint64, later []bus.Stored,
) (counts, settled bool, _ error) {
	for _, m := range later {
		if m.Subject != by.Log() || m.IsAnswer() {
			continue
		}
		body, err := r.Load(ctx, m)
		if err != nil {
			return false, false, err
		}
		var e struct {
			Seen    uint64   `json:"seen"`
			Refused []uint64 `json:"refused"`
		}
		if json.Unmarshal(body, &e) != nil || e.Seen < seq {
			continue
		}
		counts, settled = run.Entry{Refused: e.Refused}.Counts(seq)
		return counts, settled, nil
	}
	return false, false, nil
}

// Counts reports whether the outcome in a message counts as that of a run. It
// logs why one does not.
func (r Reader) Counts(ctx context.Context, of subjects.Run, m bus.Stored) (bool, error) {
	refusal, err := r.Refusal(ctx, of, m)
	if err != nil || refusal.Why == "" {
		return err == nil, err
	}
	r.conn.Grants.LogRefused(ctx, of, m, refusal)
	return false, nil
}

// Refusal says why the outcome in a message does not count as that of a run. A
// failure of a root counts whatever agents its key has a grant for: any worker
// ends roots, by their deadlines and cancel messages.
func (r Reader) Refusal(ctx context.Context, of subjects.Run, m bus.Stored) (bus.Refusal, error) {
	if !r.conn.Grants.Required() {
		return bus.Refusal{}, nil
	}
	body, err := r.Load(ctx, m)
	if err != nil {
		return bus.Refusal{}, err
	}
	gone := body == nil && m.LargeBody() != ""
	refusal, err := r.conn.Grants.Check(ctx, m, body, gone, of.Agent)
	if err == nil && refusal.OtherAgent && of.Path.IsRoot() {
		if o, err := run.DecodeOutcome(body); err == nil && o.Status == run.StatusFailed {
			return bus.Refusal{}, nil
		}
	}
	return refusal, err
}

// FirstOutcome reads the first message at a reply subject that counts as the
// outcome of a run; ok is false if the replica that answers has none.
func (r Reader) FirstOutcome(ctx context.Context, of subjects.Run, reply string) (m bus.Stored, ok bool, err error) {
	m, ok, _, err = r.lookFor(ctx, reply, r.outcomesOf(of))
	return m, ok, err
}

// OutcomeAt reads like FirstOutcome, with everything that the stream's leader
// had stored when it was called: an answer of a replica that lags would make a
// worker ask the model again. A replica that lags for 10 s is an error.
func (r Reader) OutcomeAt(ctx context.Context, of subjects.Run, reply string) (m bus.Stored, ok bool, err error) {
	return r.firstAt(ctx, reply, r.outcomesOf(of))
}

// FirstAt reads the first message that a filter matches and that is no answer
// of the server. It reads as OutcomeAt does.
func (r Reader) FirstAt(ctx context.Context, filter string) (m bus.Stored, ok bool, err error) {
	return r.firstAt(ctx, filter, func(context.Context, bus.Stored) (bool, error) { return true, nil })
}

// counting reports whether a message is one that a reader looks for.
type counting func(context.Context, bus.Stored) (bool, error)

// outcomesOf counts the outcomes of a run.
func (r Reader) outcomesOf(of subjects.Run) counting {
	return func(ctx context.Context, m bus.Stored) (bool, error) { return r.Counts(ctx, of, m) }
}

// lookFor reads the first message that a filter matches and that counts. Seen
// is the sequence of the last message or answer of the server that it has
// looked at, 0 for none.
func (r Reader) lookFor(
	ctx context.Context, filter string, counts counting,
) (m bus.Stored, ok bool, seen uint64, err error) {
	for m, err := range bus.MessagesAndAnswers(ctx, r.conn, filter) {
		if err == nil && !m.IsAnswer() {
			ok, err = counts(ctx, m)
		}
		if ok || err != nil {
			return m, ok, m.Seq, err
		}
		seen = m.Seq
	}
	return bus.Stored{}, false, seen, nil
}

// firstAt is lookFor with everything that the stream's leader had stored when
// it was called.
func (r Reader) firstAt(ctx context.Context, filter string, counts counting) (m bus.Stored, ok bool, err error) {
	var last uint64
	if r.conn.Replicas() > 1 {
		if last, err = r.conn.LastSeq(ctx, filter); err != nil || last == 0 {
			return bus.Stored{}, false, err
		}
	}
	err = CatchUp(ctx, func(ctx context.Context) (done bool, err error) {
		var seen uint64
		m, ok, seen, err = r.lookFor(ctx, filter, counts)
		return ok || seen >= last, err
	}, "%s", filter)
	return m, ok && err == nil, err
}
