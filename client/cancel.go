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

// Cancel ends a run and all runs below it: the whole tree, if the run is its
// root. It returns when the cancel message is stored; the outcome follows. A
// submission that no worker has taken yet can be cancelled too. The default
// reason is "cancelled". The error is ErrUnknownTree, ErrUnknownRun, ErrEnded
// or ErrCancelled if there is nothing to cancel.
func (c *Client) Cancel(ctx context.Context, tree subjects.Tree, path subjects.Path, reason string) error {
	r, _, err := c.findRun(ctx, tree, path)
	if err != nil {
		return err
	}
	if err := c.checkNotEnded(ctx, r); err != nil {
		return err
	}
	body, err := json.Marshal(run.End{Kind: run.KindCancelled, Text: cmp.Or(reason, "cancelled")})
	if err != nil {
		return err
	}
	if by := bus.By(c.conn); !by.IsZero() {
		// The record is stored first, so no cancel message of a known
		// sender is without it.
		record := by.On(r.Cancel())
		_, err := c.conn.Write(ctx, bus.Message{
			Subject: record, Header: [][2]string{{subjects.HeaderSchema, subjects.Schema}}, Body: body,
			Fence: bus.First(record),
		})
		if _, there := errors.AsType[*bus.ConflictError](err); err != nil && !there {
			return err
		}
	}
	_, err = c.conn.Write(ctx, bus.Message{Subject: r.Cancel(), Body: body, Fence: bus.First(r.Cancel())})
	if _, conflict := errors.AsType[*bus.ConflictError](err); conflict {
		return fmt.Errorf("%s: %w", describe(r), ErrCancelled)
	}
	return err
}
