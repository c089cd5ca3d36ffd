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

// Task is a request to an agent. Only Agent is required.
type Task struct {
	Agent subjects.Agent
	// ID is the id of the tree to make. Zero: Submit makes a new id.
	ID   subjects.Tree
	Text string
	// Timeout bounds the whole tree. Zero: the workers' own bound holds,
	// which also caps longer timeouts.
	Timeout time.Duration
	// Budget bounds the whole tree, in addition to the agent's own budget.
	Budget subjects.Budget
}

// TreeID returns the tree id for a key: the key itself if it is a valid id,
// otherwise an id derived from it. The same key always gives the same id.
func TreeID(key string) subjects.Tree {
	if t, err := subjects.ParseTree(key); err == nil {
		return t
	}
	sum := sha256.Sum256([]byte(key))
	// 32 hex digits always parse
	t, _ := subjects.ParseTree(hex.EncodeToString(sum[:16]))
	return t
}

// Submit publishes a task and returns the id of its tree once the task is
// stored. A second submission with the same id changes nothing: the tree and
// its outcome are those of the first. The error is ErrIDTaken if the id belongs
// to a tree of another agent.
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
	} else if err := c.checkID(ctx, t); err != nil {
		return t.ID, err
	}
	m := bus.Message{Subject: c.conn.Space().Submit(t.Agent, t.ID), Body: []byte(t.Text)}
	if t.Timeout > 0 {
		deadline := subjects.FormatDeadline(time.Now().Add(t.Timeout))
		m.Header = append(m.Header, [2]string{subjects.HeaderDeadline, deadline})
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

// checkID reports early an id that a worker would refuse: that of another
// agent's tree.
func (c *Client) checkID(ctx context.Context, t Task) error {
	f, err := c.lookupRoot(ctx, t.ID)
	if err != nil {
		return err
	}
	if f.call != 0 && f.root.Agent != t.Agent {
		return fmt.Errorf("tree %s: %w: %s", t.ID, ErrIDTaken, f.root.Agent)
	}
	return nil
}
