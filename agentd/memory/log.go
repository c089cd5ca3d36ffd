package memory

import (
	"context"
	"errors"

	"github.com/axebus/axe/subjects"
)

// Log is the memory of one agent. It is safe for concurrent use, in any number
// of processes.
type Log interface {
	// Read returns the whole log as one text. An unwritten log is "".
	Read(ctx context.Context) (text string, err error)

	// Append adds an entry at the end.
	Append(ctx context.Context, e Entry) error

	// Trim removes the oldest entries, all but the last keep. It changes no
	// byte of the others. A keep of 0 removes nothing. An entry that is
	// appended after Trim has counted stays.
	Trim(ctx context.Context, keep int) (removed int, err error)

	// String names the place of the log for people.
	String() string
}

// Store opens the logs of agents. It is Files or a Bucket.
type Store interface {
	// Open returns the log of an agent. Path comes from the agent's own
	// definition and may be empty.
	Open(agent subjects.Agent, path string) Log
}

// mayTrim reports whether keep may remove an entry.
func mayTrim(keep int) (bool, error) {
	if keep < 0 {
		return false, errors.New("keepN must be non-negative")
	}
	return keep > 0, nil
}
