package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

const (
	// submitAckTimeout bounds the wait for the bus to store a submission.
	submitAckTimeout = 30 * time.Second
	// outcomeGrace is added to a tree's time limit in the wait for its
	// outcome.
	outcomeGrace = 15 * time.Second
)

var (
	errNotStored = errors.New("the bus did not acknowledge the task within " + submitAckTimeout.String())
	errNoOutcome = errors.New("no outcome after the time limit: no worker serves the bus")
)

// Submit submits a task. It waits at most submitAckTimeout for the bus to store
// it.
func Submit(ctx context.Context, c *client.Client, t client.Task) (subjects.Tree, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, submitAckTimeout, errNotStored)
	defer cancel()
	tree, err := c.Submit(ctx, t)
	if errors.Is(err, errNotStored) {
		return tree, fmt.Errorf("%w; the task may be stored: wait for %s, or submit it again with that id", err, tree)
	}
	if errors.Is(err, bus.ErrNoRoom) {
		return tree, fmt.Errorf("%w; submit it again with --id %s", err, tree)
	}
	return tree, withCause(ctx, err)
}

// withTimeLimit bounds the wait for a tree that has a time limit; 0 is no
// limit. Workers enforce the deadline of a tree, but there may be no worker.
func withTimeLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit+outcomeGrace, Fail(CodeAPI, errNoOutcome))
}
