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

// submitAckTimeout bounds the wait for the bus to store a submission.
const submitAckTimeout = 30 * time.Second

var errNotStored = errors.New("the bus did not acknowledge the task within " + submitAckTimeout.String())

// Submit submits a task. It waits at most submitAckTimeout for the bus to store
// it. The error wraps client.ErrNoProgress if the task is stored and a worker
// says that it cannot go on.
func Submit(ctx context.Context, c *client.Client, t client.Task) (subjects.Tree, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, submitAckTimeout, errNotStored)
	defer cancel()
	tree, err := c.Submit(ctx, t)
	if errors.Is(err, errNotStored) || errors.Is(err, errImpatient) {
		return tree, fmt.Errorf("%w; the task may be stored: wait for %s, or submit it again with that id", err, tree)
	}
	if errors.Is(err, bus.ErrNoRoom) {
		return tree, fmt.Errorf("%w; submit it again with --id %s", err, tree)
	}
	if err == nil {
		err = c.Trouble(ctx)
	}
	if errors.Is(err, client.ErrNoProgress) {
		return tree, fmt.Errorf("%w; the task is stored: wait for %s, or submit it again with --id %s", err, tree, tree)
	}
	return tree, withCause(ctx, err)
}
