package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Task is what an agent is asked to do.
type Task struct {
	Agent subjects.Agent // required
	// the zero value makes up a new one
	ID   subjects.Tree
	Text string
	// for the whole tree, 0: what the workers allow; they allow no more
	// than that
	Timeout time.Duration
	// of the whole tree; the agent's own hold too
	Budget subjects.Budget
}

// Key makes a tree id of any string: the string itself if it is one, otherwise
// one that follows from it. The same key is always the same tree.
func Key(key string) subjects.Tree {
	if t, err := subjects.ParseTree(key); err == nil {
		return t
	}
	sum := sha256.Sum256([]byte(key))
	// 32 hex digits always parse
	t, _ := subjects.ParseTree(hex.EncodeToString(sum[:16]))
	return t
}

// Submit publishes a task and returns its tree's id once the task is stored.
// Submitting an id again changes nothing: there is one tree and one result,
// whichever submission made it.
func (c *Client) Submit(ctx context.Context, t Task) (subjects.Tree, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return subjects.Tree{}, err
	}
	if t.ID.IsZero() {
		id, err := subjects.ParseTree(bus.NewID())
		if err != nil {
			return subjects.Tree{}, err
		}
		t.ID = id
	} else if err := c.free(ctx, t); err != nil {
		return t.ID, err
	}
	m := bus.Message{Subject: c.conn.Space().Submit(t.Agent, t.ID), Body: []byte(t.Text)}
	if t.Timeout > 0 {
		m.Header = append(
			m.Header,
			[2]string{subjects.HeaderDeadline, subjects.FormatDeadline(time.Now().Add(t.Timeout))},
		)
	}
	if t.Budget != (subjects.Budget{}) {
		scopes := []subjects.Scope{{Path: subjects.Root, Budget: t.Budget}}
		m.Header = append(m.Header, [2]string{subjects.HeaderLimits, subjects.FormatScopes(scopes)})
	}
	if _, err := c.conn.Write(ctx, m); err != nil {
		return t.ID, fmt.Errorf("submit: %w", err)
	}
	return t.ID, nil
}

// free finds out early what a worker would refuse: an id that another agent's
// tree has.
func (c *Client) free(ctx context.Context, t Task) error {
	f, err := c.root(ctx, t.ID)
	if err != nil {
		return err
	}
	if f.called && f.root.Agent != t.Agent {
		return fmt.Errorf("tree %s: %w: %s", t.ID, ErrOtherAgent, f.root.Agent)
	}
	return nil
}
