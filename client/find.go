package client

import (
	"context"
	"fmt"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// found is what is known of a tree. Exactly one submission becomes its root's
// call; a refused one has a result and no call.
type found struct {
	root   subjects.Run // zero Agent: the tree is unknown
	called bool
	// of the call, 0 if there is none
	seq uint64
}

// look reads once. A tree is its root's call; failing that a result, failing
// that a submission that still waits for a worker. It leaves the queue after
// its call is stored: if it is nowhere, it may have moved between the two
// reads.
func (c *Client) look(ctx context.Context, tree subjects.Tree) (found, error) {
	f, err := c.root(ctx, tree)
	if err != nil || !f.root.Agent.IsZero() {
		return f, err
	}
	space := c.conn.Space()
	m, queued, err := c.conn.QueuedSubmission(ctx, space.SubmissionOf(tree))
	if err != nil {
		return found{}, err
	}
	if !queued {
		return c.root(ctx, tree)
	}
	at, err := space.Parse(m.Subject)
	if err != nil {
		return found{}, nil //nolint:nilerr // no worker will take it either
	}
	return found{root: at.Run}, nil
}

// root reads the call or the result of a tree's root.
func (c *Client) root(ctx context.Context, tree subjects.Tree) (found, error) {
	space := c.conn.Space()
	ms, err := c.conn.LastPerSubject(ctx, space.RootCallOf(tree), space.ResultOf(tree))
	if err != nil {
		return found{}, fmt.Errorf("tree %s: %w", tree, err)
	}
	var f found
	for _, m := range ms {
		at, err := space.Parse(m.Subject)
		switch {
		case err != nil: // written by somebody else, by hand
		case at.Kind == subjects.Call && !f.called:
			f = found{at.Run, true, m.Seq}
		case f.root.Agent.IsZero():
			f.root = at.Run
		}
	}
	return f, nil
}

// find looks for a tree until it is found or patience ends: a follower that
// answers a read may lag, so one look does not prove it unknown.
func (c *Client) find(ctx context.Context, tree subjects.Tree) (found, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return found{}, err
	}
	for begin := (time.Time{}); ; {
		f, err := c.look(ctx, tree)
		if err != nil || !f.root.Agent.IsZero() {
			return f, err
		}
		if begin.IsZero() {
			// the first look may have lasted for as long as a
			// server was away
			begin = time.Now()
		}
		if time.Since(begin) >= patience {
			return found{}, fmt.Errorf("%w: %s", ErrUnknownTree, tree)
		}
		if err := bus.Pause(ctx, patiencePoll); err != nil {
			return found{}, err
		}
	}
}

// findRun looks for a run of a tree by its path.
func (c *Client) findRun(ctx context.Context, tree subjects.Tree, path subjects.Path) (subjects.Run, error) {
	r, _, err := c.findCalled(ctx, tree, path)
	return r, err
}

// findCalled looks for a run of a tree, and for the sequence of its call; that
// of a root without one is 0.
func (c *Client) findCalled(
	ctx context.Context,
	tree subjects.Tree,
	path subjects.Path,
) (r subjects.Run, call uint64, err error) {
	f, err := c.find(ctx, tree)
	if err != nil || path.IsRoot() {
		return f.root, f.seq, err
	}
	ms, err := c.conn.LastPerSubject(ctx, f.root.Space.CallOf(tree, path))
	if err != nil {
		return subjects.Run{}, 0, fmt.Errorf("tree %s: %w", tree, err)
	}
	for _, m := range ms {
		if at, err := f.root.Space.Parse(m.Subject); err == nil {
			return at.Run, m.Seq, nil
		}
	}
	return subjects.Run{}, 0, fmt.Errorf("%w: %s of tree %s", ErrUnknownRun, path, tree)
}

// result reads the stored outcome of a root. Of two the first in stream order
// counts.
func (c *Client) result(ctx context.Context, root subjects.Run) (bus.Stored, bool, error) {
	return c.conn.First(ctx, root.Space.Result(root.Agent, root.Tree))
}

// Queued reports whether a tree is a submission that no worker has taken yet.
func (c *Client) Queued(ctx context.Context, tree subjects.Tree) (bool, error) {
	_, ok, err := c.conn.QueuedSubmission(ctx, c.conn.Space().SubmissionOf(tree))
	return ok, err
}
