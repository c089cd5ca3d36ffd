package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

const (
	// stored is how long the bus may take to acknowledge a submission.
	stored = 30 * time.Second
	// answers is how much longer than its own time a tree's outcome is
	// waited for.
	answers = 15 * time.Second
)

var (
	errNotStored = errors.New("the bus did not acknowledge the task within " + stored.String())
	errNoOutcome = errors.New("no outcome though the time is over: no worker serves the bus")
)

// Submit hands over a task; a bus that does not acknowledge it is not waited
// for endlessly.
func Submit(ctx context.Context, c *client.Client, t client.Task) (subjects.Tree, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stored, errNotStored)
	defer cancel()
	tree, err := c.Submit(ctx, t)
	// the answer to the last attempt is part of it
	if errors.Is(err, errNotStored) {
		return tree, fmt.Errorf(
			"%w; it may have been stored all the same: wait for %s, or submit it again with that id",
			err,
			tree,
		)
	}
	return tree, because(ctx, err)
}

// within bounds the wait for a tree that has a time limit, 0 for none: a
// deadline is kept by workers, and there may be none.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit+answers, Fail(CodeAPI, errNoOutcome))
}
