package memory

import (
	"context"
	"errors"

	"github.com/axebus/axe/subjects"
)

// Log is the memory of one agent. It is safe for concurrent use, in any number
// of processes.
type Log interface {
	// Read returns all of it as one text, empty if there is none yet.
	Read(ctx context.Context) (text string, err error)

	// Append adds an entry after all others.
	Append(ctx context.Context, e Entry) error

	// Trim removes the oldest entries, all but the last keep, and leaves
	// every byte of the others as it is. With a keep of 0 it removes
	// nothing. What is appended after they were counted stays.
	Trim(ctx context.Context, keep int) (removed int, err error)

	// String says to people where the log is.
	String() string
}

// Store opens the logs of agents. It is Files or a Bucket.
type Store interface {
	// Open returns the log of an agent. Path is the agent's own, from its
	// file, and may be empty.
	Open(agent subjects.Agent, path string) Log
}

// worthTrimming reports whether there may be something to remove.
func worthTrimming(keep int) (bool, error) {
	if keep < 0 {
		return false, errors.New("keepN must be non-negative")
	}
	return keep > 0, nil
}

// because is why ctx has ended, nil as long as it has not.
func because(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
