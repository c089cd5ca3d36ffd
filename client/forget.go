package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// quietTime is the time without a new message after which a tree is removed.
// Workers finish their work for a run after its outcome: they remove timers,
// and they set no timer of a run that has ended.
const quietTime = 3 * time.Second

// Forget removes a tree that has ended and all that belongs to it: messages,
// result, timers, tallies, dead letters, large bodies and artifacts. The memory
// of its agents stays. It waits until the tree is quiet for three seconds. The
// error is ErrAtWork if some run of the tree may still move. Found is false if
// no tree has the id. Forget then removes the remains of an earlier Forget that
// did not end.
func Forget(ctx context.Context, c *Client, tree subjects.Tree) (found bool, err error) {
	f, err := c.find(ctx, tree)
	switch {
	case errors.Is(err, ErrUnknownTree):
	case err != nil:
		return false, err
	default:
		found = true
		if err := awaitQuiet(ctx, c, f.root); err != nil {
			return true, fmt.Errorf("tree %s: %w", tree, err)
		}
	}
	if err := bus.Forget(ctx, c.conn, tree); err != nil {
		return found, fmt.Errorf("forget tree %s: %w", tree, err)
	}
	return found, nil
}

// awaitQuiet waits until a tree is quiet for quietTime. The error is ErrAtWork
// for a tree that may still move.
func awaitQuiet(ctx context.Context, c *Client, root subjects.Run) error {
	for {
		last, err := lastOfEnded(ctx, c, root)
		if err != nil {
			return err
		}
		quiet := c.conn.Clocks.Of(root).Now().Sub(last)
		if quiet >= quietTime {
			return nil
		}
		if err := pause.For(ctx, quietTime-quiet); err != nil {
			return err
		}
	}
}

// lastOfEnded returns the time of the last message of a tree of which each run
// has an outcome, or is past its deadline. The error is ErrAtWork for any other
// tree.
func lastOfEnded(ctx context.Context, c *Client, root subjects.Run) (last time.Time, err error) {
	space := c.conn.Space()
	result, ended, err := c.readResult(ctx, root)
	if err != nil {
		return last, err
	}
	clock := c.conn.Clocks.Of(root)
	stored := map[string]bool{}
	imported := false
	type call struct {
		run   subjects.Run
		reply string
		due   due
	}
	var calls []call
	note := func(m bus.Stored) {
		stored[m.Subject] = stored[m.Subject] || !m.IsAnswer()
		if at := m.Time.Add(clock.Shift(m)); at.After(last) {
			last = at
		}
	}
	for m, err := range c.conn.Scan(ctx, space.TreeOf(root.Tree), 0) {
		if err != nil {
			return last, err
		}
		note(m)
		if m.IsImported() {
			imported = true // no worker goes on with it
			continue
		}
		if at, err := space.Parse(m.Subject); err == nil && at.Kind.Begins() {
			deadline, _ := subjects.ParseDeadline(m.Header.Get(subjects.HeaderDeadline)) // malformed: it has passed
			calls = append(calls, call{at.Run, m.Header.Get(subjects.HeaderReply), newDue(m, deadline)})
		}
	}
	if ended {
		note(result)
	}
	open := slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return stored[c.reply] })
	if len(open) > 0 {
		latest := func() call {
			return slices.MaxFunc(open, func(a, b call) int { return a.due.end(clock).Compare(b.due.end(clock)) })
		}
		over, err := passed(ctx, c, clock, func() time.Time { return latest().due.end(clock) })
		if err != nil {
			return last, err
		}
		if !over {
			return last, fmt.Errorf("%w: run %s has no outcome", ErrAtWork, latest().run.Path)
		}
	}
	if len(calls) == 0 && !ended && !imported {
		return last, fmt.Errorf("%w: no worker has taken the task yet", ErrAtWork)
	}
	return last, nil
}
