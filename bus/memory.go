package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Memory is a list of small values for each agent, in the order in which the
// server stored them. Each value has a key of its own in a key-value bucket,
// <agent>.<time>-<id>: two writers never use the same key, so no write is
// refused. A Memory is safe for concurrent use.
type Memory struct{ *bucket }

// Memory is the bucket of the agents' memories. It makes no request yet.
func (c *Conn) Memory() *Memory {
	return &Memory{c.bucket("MEMORY", "What agents remember of their runs")}
}

// Append stores a value after all others of an agent, once. It tries until ctx
// ends.
func (m *Memory) Append(ctx context.Context, agent subjects.Agent, value []byte) error {
	key := agent.String() + "." + time.Now().UTC().Format("20060102T150405Z") + "-" + NewID()
	_, err := m.swap(ctx, key, 0, value)
	if _, stored := errors.AsType[*ConflictError](err); stored {
		// An earlier attempt stored it: no other writer has the key.
		return nil
	}
	return err
}

// Values reads all values of an agent, the oldest first.
func (m *Memory) Values(ctx context.Context, agent subjects.Agent) ([][]byte, error) {
	ms, err := m.of(ctx, agent)
	values := make([][]byte, len(ms))
	for i, m := range ms {
		values[i] = m.Body
	}
	return values, err
}

// Trim removes an agent's values but the last keep ones; with keep 0 or less it
// removes all. It returns the number of removed values. It tries until ctx
// ends. A value that is stored meanwhile stays: Trim removes only values that
// it has counted.
func (m *Memory) Trim(ctx context.Context, agent subjects.Agent, keep int) (removed int, err error) {
	ms, err := m.of(ctx, agent)
	old := len(ms) - max(keep, 0)
	if err != nil || old <= 0 {
		return 0, err
	}
	return old, m.do(ctx, func() (again bool, _ error) {
		_, err := askOnce(ctx, m.conn, func(ctx context.Context) (none struct{}, _ error) {
			s, err := m.conn.js.Stream(ctx, m.streamName())
			if err != nil {
				return none, err
			}
			return none, s.Purge(ctx,
				jetstream.WithPurgeSubject(m.subject(m.keys(agent))), jetstream.WithPurgeSequence(ms[old-1].Seq+1))
		})
		if err == nil {
			return false, nil
		}
		return m.conn.failed(ctx, Fence{}, err)
	})
}

// keys matches the keys of an agent's values.
func (m *Memory) keys(agent subjects.Agent) string { return agent.String() + ".*" }

// of reads the messages of an agent's keys.
func (m *Memory) of(ctx context.Context, agent subjects.Agent) (all []Stored, _ error) {
	err := m.do(ctx, func() (again bool, err error) {
		all, again, err = m.list(ctx, m.keys(agent), time.Time{})
		return again, err
	})
	return all, err
}
