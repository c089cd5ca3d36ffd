package client

import (
	"context"
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// RootState returns the state of a tree's root, folded from the messages stored
// so far. The state is zero for a tree whose root has no call, for example a
// submission that waits for a worker, or one that was refused. The error is
// ErrUnknownTree for a tree that is not found.
func (c *Client) RootState(ctx context.Context, tree subjects.Tree) (run.State, error) {
	f, err := c.find(ctx, tree)
	if err != nil || f.call == 0 {
		return run.State{}, err
	}
	return c.readState(ctx, f.root)
}

// readState folds a run.
func (c *Client) readState(ctx context.Context, r subjects.Run) (run.State, error) {
	s, err := c.runs.State(ctx, r)
	if err != nil {
		return s, fmt.Errorf("%s: %w", describe(r), err)
	}
	return s, nil
}

// readCall reads the call of a run. Ok is false if the run was not called.
func (c *Client) readCall(ctx context.Context, r subjects.Run) (m bus.Stored, call run.Called, ok bool, err error) {
	m, ok, err = bus.FirstMessage(ctx, c.conn, r.Call())
	if err != nil || !ok {
		return m, call, false, err
	}
	e, err := c.runs.Event(ctx, r, m)
	call, ok = e.(run.Called)
	return m, call, ok, err
}
