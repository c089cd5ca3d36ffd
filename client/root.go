package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Root is the root of a tree as its messages so far have it: its turns with
// their calls and outcomes. A tree that has a result and no call has no turns.
// ErrUnknownTree is the error of one that is nowhere.
func (c *Client) Root(ctx context.Context, tree subjects.Tree) (run.State, error) {
	f, err := c.find(ctx, tree)
	if err != nil || !f.called {
		return run.State{}, err
	}
	return c.fold(ctx, f.root, f.seq, func(run.Event) {})
}

// fold folds a run whose call has a sequence, and calls fn for each of its
// events.
func (c *Client) fold(ctx context.Context, r subjects.Run, call uint64, fn func(run.Event)) (run.State, error) {
	ms, err := c.conn.ReadByScan(ctx, r.All(), call-1)
	if err != nil {
		return run.State{}, fmt.Errorf("%s: %w", name(r), err)
	}
	var s run.State
	for _, m := range ms {
		e, err := c.folded(ctx, r, m)
		if err != nil {
			return run.State{}, err
		}
		if e == nil {
			continue
		}
		if s, err = s.Apply(e); err != nil {
			return run.State{}, fmt.Errorf("%s: %w", name(r), err)
		}
		fn(e)
	}
	return s, nil
}

// folded is what a message says to the fold of a run, nil for nothing.
func (c *Client) folded(ctx context.Context, r subjects.Run, m bus.Stored) (run.Event, error) {
	at, err := c.conn.Space().Parse(m.Subject)
	if err != nil || at.Run != r {
		return nil, nil //nolint:nilerr // late, duplicate, unknown: no-op (rule 7)
	}
	body, err := c.conn.Load(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Subject, err)
	}
	meta := run.Meta{Seq: m.Seq, Time: m.Time}
	switch at.Kind {
	case subjects.Call:
		e := run.Called{Meta: meta}
		_ = json.Unmarshal(body, &e.Input)
		return e, nil
	case subjects.Log:
		entry, err := run.DecodeEntry(body)
		return entry.Event(meta), err
	case subjects.Reply:
		o, err := run.DecodeOutcome(body)
		if err != nil {
			o = run.Failure(run.KindError, "malformed %v", err)
		}
		return run.Replied{Meta: meta, Turn: at.Turn, Index: at.Index, Outcome: o}, nil
	case subjects.Mail:
		letter, err := run.DecodeMail(body)
		if err != nil {
			return nil, nil //nolint:nilerr // what is malformed is nothing
		}
		letter.Key = at.Key.String()
		return run.Mailed{Meta: meta, Mail: letter}, nil
	case subjects.Timer:
		return run.TimedOut{Meta: meta, Turn: at.Turn}, nil
	case subjects.Cancel:
		return run.Cancelled{Meta: meta}, nil
	case subjects.Interrupt:
		return run.Interrupted{Meta: meta}, nil
	case subjects.Approve:
		a, err := run.DecodeApproval(body)
		if err != nil {
			return nil, nil //nolint:nilerr // the same
		}
		return run.Approved{Meta: meta, Approval: a}, nil
	case subjects.Submission, subjects.Result, subjects.Progress, subjects.Other:
	}
	return nil, nil
}
