package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Cancel ends a tree: its root and all below it. It returns when the tombstone is stored; the outcome
// follows. A submission that no worker has taken yet is cancelled too. The error is ErrUnknownTree,
// ErrEnded or ErrCancelled where there is nothing to be done.
func (c *Client) Cancel(ctx context.Context, tree subjects.Tree, why string) error {
	f, err := c.find(ctx, tree)
	if err != nil {
		return err
	}
	if _, ended, err := c.result(ctx, f.root); err != nil {
		return err
	} else if ended {
		return fmt.Errorf("%w: %s", ErrEnded, tree)
	}
	body, err := json.Marshal(run.End{Kind: run.KindCancelled, Text: cmp.Or(why, "cancelled")})
	if err != nil {
		return err
	}
	_, err = c.conn.Write(ctx, bus.Message{Subject: f.root.Cancel(), Body: body, Fence: bus.After(f.root.Cancel(), 0)})
	if _, twice := errors.AsType[*bus.ConflictError](err); twice {
		return fmt.Errorf("%w: %s", ErrCancelled, tree)
	}
	return err
}
