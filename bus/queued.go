package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Queued reads a submission that no worker has taken over yet: the last one that the filter matches. Its
// body is left out; ok is false if there is none.
func (c *Conn) Queued(ctx context.Context, filter string) (m Stored, ok bool, err error) {
	raw, err := c.last(ctx, c.cfg.Space.Name("SUBMIT"), filter)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Stored{}, false, ErrNoStream
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Stored{}, false, nil
	}
	if err != nil {
		return Stored{}, false, fmt.Errorf("submission %s: %w", filter, err)
	}
	return Stored{Subject: raw.Subject, Seq: raw.Sequence, Time: raw.Time, Header: raw.Header}, true, nil
}
