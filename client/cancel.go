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

// Cancel ends a run and all below it: the whole tree, if it is the root. It
// returns when the tombstone is stored; the outcome follows. A submission that
// no worker has taken yet is cancelled too. The error is ErrUnknownTree,
// ErrUnknownRun, ErrEnded or ErrCancelled where there is nothing to be done.
func (c *Client) Cancel(ctx context.Context, tree subjects.Tree, path subjects.Path, why string) error {
	r, err := c.findRun(ctx, tree, path)
	if err != nil {
		return err
	}
	if ended, err := c.ended(ctx, r); err != nil {
		return err
	} else if ended {
		return fmt.Errorf("%s %w", name(r), ErrEnded)
	}
	body, err := json.Marshal(run.End{Kind: run.KindCancelled, Text: cmp.Or(why, "cancelled")})
	if err != nil {
		return err
	}
	_, err = c.conn.Write(ctx, bus.Message{Subject: r.Cancel(), Body: body, Fence: bus.After(r.Cancel(), 0)})
	if _, twice := errors.AsType[*bus.ConflictError](err); twice {
		return fmt.Errorf("%s %w", name(r), ErrCancelled)
	}
	return err
}

// ended reports whether a run has an outcome.
func (c *Client) ended(ctx context.Context, r subjects.Run) (bool, error) {
	_, ended, err := c.end(ctx, r)
	return ended, err
}

// end reads the message that has a run's outcome; ok is false if there is none.
func (c *Client) end(ctx context.Context, r subjects.Run) (m bus.Stored, ok bool, err error) {
	reply := r.Space.Result(r.Agent, r.Tree)
	if !r.Path.IsRoot() {
		call, _, err := c.conn.First(ctx, r.Call())
		if err != nil {
			return m, false, err
		}
		if reply = call.Header.Get(subjects.HeaderReply); r.Space.CheckReply(reply) != nil {
			return m, false, nil //nolint:nilerr // a malformed call is refused where it is served
		}
	}
	return c.conn.First(ctx, reply)
}

// name is a run as its users name it.
func name(r subjects.Run) string {
	if r.Path.IsRoot() {
		return "tree " + r.Tree.String()
	}
	return "run " + r.Path.String() + " of tree " + r.Tree.String()
}
