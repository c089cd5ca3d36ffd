package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// found is the result of a lookup of a tree.
type found struct {
	// root has a zero Agent if the tree is unknown.
	root subjects.Run
	// call is the sequence of the root's call, 0 without a call. A
	// submission that was refused has an outcome and no call.
	call uint64
}

// lookup looks for a tree once: for the root's call, then for a submission that
// waits for a worker, then for an outcome. A worker stores the call before it
// removes the submission. So lookup reads the root again if it finds no
// submission: the submission may have become a call between the two reads.
func (c *Client) lookup(ctx context.Context, tree subjects.Tree) (found, error) {
	f, queued, err := c.lookupQueued(ctx, tree)
	if err != nil || queued || f.call != 0 {
		return f, err
	}
	return c.lookupRoot(ctx, tree)
}

// lookupQueued looks for the root's call or its outcome, and without a call for
// a submission that waits for a worker. An outcome without a call is that of a
// submission that was refused. A submission to another agent goes before it.
// The outcome is found also while the stream of submissions is missing.
func (c *Client) lookupQueued(ctx context.Context, tree subjects.Tree) (f found, queued bool, err error) {
	f, err = c.lookupRoot(ctx, tree)
	if err != nil || f.call != 0 {
		return f, false, err
	}
	space := c.conn.Space()
	m, ok, err := c.conn.QueuedSubmission(ctx, space.SubmissionOf(tree)...)
	if errors.Is(err, bus.ErrNoStream) && !f.root.Agent.IsZero() {
		return f, false, nil
	}
	if err != nil || !ok {
		return f, false, err
	}
	at, err := space.Parse(m.Subject)
	if err != nil || at.Run.Agent == f.root.Agent {
		return f, false, nil //nolint:nilerr // no worker will take it either
	}
	return found{root: at.Run}, true, nil
}

// lookupRoot reads the call or the outcome of a tree's root.
func (c *Client) lookupRoot(ctx context.Context, tree subjects.Tree) (found, error) {
	space := c.conn.Space()
	ms, err := bus.MessagePerSubject(ctx, c.conn, space.CallOf(tree, subjects.Root), space.ResultOf(tree))
	if err != nil {
		return found{}, fmt.Errorf("tree %s: %w", tree, err)
	}
	var f found
	for _, m := range ms {
		at, err := space.Parse(m.Subject)
		switch {
		case err != nil: // no worker wrote it
		case at.Kind == subjects.Call && f.call == 0:
			f = found{at.Run, m.Seq}
		case f.root.Agent.IsZero():
			f.root = at.Run
		}
	}
	return f, nil
}

// Knows looks for a tree once. It returns false if no tree is found. The server
// that answers may lag, so a tree that has just begun may not be found.
func Knows(ctx context.Context, c *Client, tree subjects.Tree) (bool, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return false, err
	}
	f, err := c.lookup(ctx, tree)
	return !f.root.Agent.IsZero(), err
}

// find looks for a tree until it finds it or lookupTimeout has passed. One
// lookup does not prove that a tree is unknown, since the server that answers
// may lag.
func (c *Client) find(ctx context.Context, tree subjects.Tree) (found, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return found{}, err
	}
	var begin time.Time
	for {
		f, err := c.lookup(ctx, tree)
		if err != nil || !f.root.Agent.IsZero() {
			return f, err
		}
		// The time counts from the end of the first lookup, which may
		// have waited for a server that was away.
		if begin.IsZero() {
			begin = time.Now()
		}
		if time.Since(begin) >= lookupTimeout {
			return found{}, fmt.Errorf("%w: %s", ErrUnknownTree, tree)
		}
		if err := pause.For(ctx, lookupInterval); err != nil {
			return found{}, err
		}
	}
}

// findRun looks for a run of a tree, and for the sequence of its call. The
// sequence is 0 for a root that was not called yet.
func (c *Client) findRun(
	ctx context.Context, tree subjects.Tree, path subjects.Path,
) (r subjects.Run, call uint64, err error) {
	f, err := c.find(ctx, tree)
	if err != nil || path.IsRoot() {
		return f.root, f.call, err
	}
	space := f.root.Space
	ms, err := bus.MessagePerSubject(ctx, c.conn, space.CallOf(tree, path), space.ToolCallOf(tree, path))
	if err != nil {
		return subjects.Run{}, 0, fmt.Errorf("tree %s: %w", tree, err)
	}
	for _, m := range ms {
		if at, err := space.Parse(m.Subject); err == nil {
			return at.Run, m.Seq, nil
		}
	}
	return subjects.Run{}, 0, fmt.Errorf("%w: %s of tree %s", ErrUnknownRun, path, tree)
}

// findActive looks for a run that was called and has not ended. The error is
// ErrNotStarted, ErrEnded or ErrCancelled for other runs.
func (c *Client) findActive(ctx context.Context, tree subjects.Tree, path subjects.Path) (subjects.Run, error) {
	r, call, err := c.findRun(ctx, tree, path)
	if err != nil {
		return r, err
	}
	// A worker ignores messages that are stored before the call.
	if call == 0 {
		return r, fmt.Errorf("%s: %w", describe(r), ErrNotStarted)
	}
	if err := c.checkNotEnded(ctx, r); err != nil {
		return r, err
	}
	_, cancelled, err := bus.FirstMessage(ctx, c.conn, r.Cancel())
	if err == nil && cancelled {
		err = fmt.Errorf("%s: %w", describe(r), ErrCancelled)
	}
	return r, err
}

// activeState is findActive, and reads the state of the run.
func (c *Client) activeState(
	ctx context.Context, tree subjects.Tree, path subjects.Path,
) (r subjects.Run, s run.State, err error) {
	if r, err = c.findActive(ctx, tree, path); err != nil {
		return r, s, err
	}
	s, err = c.readState(ctx, r)
	return r, s, err
}

// checkNotEnded returns ErrEnded for a run that has an outcome.
func (c *Client) checkNotEnded(ctx context.Context, r subjects.Run) error {
	_, ended, err := c.readEnd(ctx, r)
	if err == nil && ended {
		err = fmt.Errorf("%s: %w", describe(r), ErrEnded)
	}
	return err
}

// readEnd reads the message that holds a run's outcome. Ok is false if the run
// has none.
func (c *Client) readEnd(ctx context.Context, r subjects.Run) (m bus.Stored, ok bool, err error) {
	if r.Path.IsRoot() {
		return c.readResult(ctx, r)
	}
	call, found, err := bus.FirstMessage(ctx, c.conn, r.Call())
	if err == nil && !found {
		call, _, err = bus.FirstMessage(ctx, c.conn, r.ToolCall())
	}
	if err != nil {
		return m, false, err
	}
	reply := call.Header.Get(subjects.HeaderReply)
	if r.Space.CheckReply(reply) != nil {
		return m, false, nil //nolint:nilerr // the run's worker refuses such a call
	}
	return c.runs.FirstOutcome(ctx, r, reply)
}

// readOutcome reads the outcome of a run and the time at which it was stored.
// Both are zero if the run has none.
func (c *Client) readOutcome(ctx context.Context, r subjects.Run) (o run.Outcome, at time.Time, err error) {
	m, ok, err := c.readEnd(ctx, r)
	if err != nil || !ok {
		return o, at, err
	}
	o, err = c.decodeOutcome(ctx, m)
	return o, m.Origin().Time, err
}

// readResult reads the message that holds the outcome of a root. Of two
// outcomes the first in the stream counts.
func (c *Client) readResult(ctx context.Context, root subjects.Run) (bus.Stored, bool, error) {
	return c.runs.FirstOutcome(ctx, root, root.Space.Result(root.Agent, root.Tree))
}

// Queued reports whether a tree is a submission that no worker has taken yet.
func (c *Client) Queued(ctx context.Context, tree subjects.Tree) (bool, error) {
	_, queued, err := c.lookupQueued(ctx, tree)
	return queued, err
}
