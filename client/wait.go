package client

import (
	"context"
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Wait returns the outcome of a tree, at once if it has ended. Without an
// outcome it returns when ctx ends, with its cause. The error is ErrUnknownTree
// for a tree that is not found, ErrRemoved or ErrNeverTaken for a tree that is
// removed meanwhile, and ErrOverdue for a tree that no worker ends.
func (c *Client) Wait(ctx context.Context, tree subjects.Tree) (run.Outcome, error) {
	f, err := c.find(ctx, tree)
	if err != nil {
		return run.Outcome{}, err
	}
	hints := newHints()
	space := c.conn.Space()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := c.conn.Watch(ctx, space.Live(space.Result(f.root.Agent, tree)), hints.add); err != nil {
		return run.Outcome{}, err
	}
	missing, err := newMissing(ctx, c, f)
	if err != nil {
		return run.Outcome{}, err
	}
	for {
		m, ok, err := c.readResult(ctx, f.root)
		if err != nil {
			return run.Outcome{}, err
		}
		if ok {
			return c.decodeOutcome(ctx, m)
		}
		if err := missing.check(ctx); err != nil {
			return run.Outcome{}, err
		}
		if err := pause.AtMost(ctx, c.interval(), hints); err != nil {
			return run.Outcome{}, err
		}
	}
}

// decodeOutcome loads and decodes the message that holds an outcome.
func (c *Client) decodeOutcome(ctx context.Context, m bus.Stored) (run.Outcome, error) {
	body, err := c.conn.Load(ctx, m)
	if err != nil {
		return run.Outcome{}, fmt.Errorf("%s: %w", m.Subject, err)
	}
	o, err := run.DecodeOutcome(body)
	if err != nil {
		return run.Outcome{}, fmt.Errorf("%s: %w", m.Subject, err)
	}
	return o, nil
}

// hints tells a reader that there may be something new to read. Pending hints
// coalesce.
type hints chan struct{}

func newHints() hints { return make(hints, 1) }

func (h hints) add(bus.Stored) { pause.Notify(h) }
