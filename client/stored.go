package client

import (
	"context"
	"fmt"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Stored reads the messages of a tree as they are on the bus, in stream order,
// with the outcome of the root. A body in the object store is a reference. The
// error is ErrUnknownTree for a tree that is not found.
func (c *Client) Stored(ctx context.Context, tree subjects.Tree) ([]bus.Stored, error) {
	f, err := c.find(ctx, tree)
	if err != nil {
		return nil, err
	}
	outcome, ended, err := c.readResult(ctx, f.root)
	if err != nil {
		return nil, err
	}
	ms, err := bus.ReadWhole(ctx, c.conn, f.root.Space.TreeOf(tree))
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", tree, err)
	}
	if ended {
		ms = append(ms, outcome)
	}
	return bus.InOrder(ms), nil
}
