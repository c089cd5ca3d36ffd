package client

import (
	"context"
	"encoding/json"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Interrupt stops the current work of a run without ending the run. The request
// to its model is aborted, and the children and forks of the run are cancelled.
// When they have ended, or after ten seconds, the run is idle: it goes on with
// the next message that it is sent. Interrupt returns when its message is
// stored. An idle run stays idle. The error is ErrUnknownTree, ErrUnknownRun,
// ErrNotStarted, ErrEnded or ErrCancelled if there is nothing to interrupt.
func (c *Client) Interrupt(ctx context.Context, tree subjects.Tree, path subjects.Path) error {
	r, err := c.findActive(ctx, tree, path)
	if err != nil {
		return err
	}
	return c.writeTo(ctx, r.Interrupt, struct{}{})
}

// writeTo stores a message, as JSON, to a run under a new key, with the user of
// the connection as its sender. Subject returns the subject for a key.
func (c *Client) writeTo(ctx context.Context, subject func(subjects.Key) string, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	k, err := subjects.ParseKey(bus.NewID())
	if err != nil {
		return err
	}
	signed := bus.By(c.conn).On(subject(k))
	_, err = c.conn.Write(ctx, bus.Message{
		Subject: signed, Header: [][2]string{{subjects.HeaderSchema, subjects.Schema}}, Body: body,
		Fence: bus.After(signed, 0),
	})
	return err
}
