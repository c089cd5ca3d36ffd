package client

import (
	"context"
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Root returns the state of a tree's root, folded from its messages so far. The
// state of a tree that has a result and no call has no turns. The error wraps
// ErrUnknownTree if there is no such tree.
func (c *Client) Root(ctx context.Context, tree subjects.Tree) (run.State, error) {
	f, err := c.find(ctx, tree)
	if err != nil || !f.called {
		return run.State{}, err
	}
	return c.fold(ctx, f.root, func(run.Event) {})
}

// fold folds a run and calls fn for each of its events.
func (c *Client) fold(ctx context.Context, r subjects.Run, fn func(run.Event)) (run.State, error) {
	var s run.State
	for e, err := range c.runs.Events(ctx, r) {
		if err == nil {
			s, err = s.Apply(e)
		}
		if err != nil {
			return run.State{}, fmt.Errorf("%s: %w", name(r), err)
		}
		fn(e)
	}
	return s, nil
}
