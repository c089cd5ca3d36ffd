package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/axebus/axe/subjects"
)

// Values keeps a list of values for each agent. Many writers may append to a
// list at once. A bus.Memory is one.
type Values interface {
	fmt.Stringer
	// Append adds a value after all others of an agent.
	Append(ctx context.Context, agent subjects.Agent, value []byte) error
	// Values returns an agent's values, the oldest first.
	Values(ctx context.Context, agent subjects.Agent) ([][]byte, error)
	// Trim removes all values but the last keep.
	Trim(ctx context.Context, agent subjects.Agent, keep int) (removed int, err error)
}

// Bucket keeps logs on the bus, for all machines. Each entry is one value, with
// the text that it has in a file. Entries are in the order in which the bus
// stored them. A value that a person has written counts as one entry for Trim,
// whatever it contains. A bucket ignores an agent's own path.
type Bucket struct{ Values Values }

// Open returns the log of an agent. It sends no request.
func (b Bucket) Open(agent subjects.Agent, _ string) Log { return &list{b.Values, agent} }

// list is the log of an agent on the bus.
type list struct {
	values Values
	agent  subjects.Agent
}

func (l *list) String() string { return fmt.Sprintf("%s, agent %s", l.values, l.agent) }

func (l *list) Read(ctx context.Context) (string, error) {
	values, err := l.values.Values(ctx, l.agent)
	if err != nil {
		return "", fmt.Errorf("memory: %w", err)
	}
	var text strings.Builder
	atLineStart := true
	for _, v := range values {
		if !atLineStart {
			// A person wrote the value before without a newline.
			text.WriteByte('\n')
		}
		text.Write(v)
		atLineStart = len(v) == 0 || v[len(v)-1] == '\n'
	}
	return text.String(), nil
}

func (l *list) Append(ctx context.Context, e Entry) error {
	if err := l.values.Append(ctx, l.agent, []byte(e.String())); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

func (l *list) Trim(ctx context.Context, keep int) (removed int, err error) {
	if ok, err := mayTrim(keep); !ok {
		return 0, err
	}
	if removed, err = l.values.Trim(ctx, l.agent, keep); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return removed, nil
}
