package client

import (
	"context"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Wait returns the outcome of a tree, at once if it has ended. It waits for as
// long as ctx allows, and returns ErrUnknownTree for a tree that is nowhere to
// be found.
func (c *Client) Wait(ctx context.Context, tree subjects.Tree) (run.Outcome, error) {
	f, err := c.find(ctx, tree)
	if err != nil {
		return run.Outcome{}, err
	}
	hints := newHints()
	space := c.conn.Space()
	stop, err := c.conn.Watch(space.Live(space.Result(f.root.Agent, tree)), hints.give)
	if err != nil {
		return run.Outcome{}, err
	}
	defer stop()
	for {
		m, ok, err := c.result(ctx, f.root)
		if err != nil {
			return run.Outcome{}, err
		}
		if ok {
			return c.outcome(ctx, m)
		}
		if err := hints.wait(ctx, poll); err != nil {
			return run.Outcome{}, err
		}
	}
}

// outcome reads what a message says of how a run ended.
func (c *Client) outcome(ctx context.Context, m bus.Stored) (run.Outcome, error) {
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

// hints says that there may be something to read. Many hints are one.
type hints chan struct{}

func newHints() hints { return make(hints, 1) }

func (h hints) give(bus.Stored) {
	select {
	case h <- struct{}{}:
	default:
	}
}

// wait returns at the next hint, or after a while without one.
func (h hints) wait(ctx context.Context, atMost time.Duration) error {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-h:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
