package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/axebus/axe/subjects"
)

// Values is what a Bucket needs of the bus: a list of values for each agent, to
// which many append at once. It is a bus.Bucket.
type Values interface {
	fmt.Stringer
	Append(ctx context.Context, agent subjects.Agent, value []byte) error
	// the oldest first
	Values(ctx context.Context, agent subjects.Agent) ([][]byte, error)
	Trim(ctx context.Context, agent subjects.Agent, keep int) (removed int, err error)
}

// Bucket keeps logs on the bus, for all machines. An entry is a value of its
// own, with the text that it would have in a file, and the order is that in
// which the bus stored them. An agent's own path has no meaning here.
type Bucket struct{ Values Values }

// Open returns the log of an agent. It asks nobody yet.
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
	newline := true
	for _, v := range values {
		if !newline {
			// the value before was written by hand
			text.WriteByte('\n')
		}
		text.Write(v)
		newline = len(v) == 0 || v[len(v)-1] == '\n'
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
	if ok, err := worthTrimming(keep); !ok {
		return 0, err
	}
	if removed, err = l.values.Trim(ctx, l.agent, keep); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return removed, nil
}
