package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// QueuedSubmission reads the last submission that the filter matches and that
// no worker has acknowledged: with its acknowledgement a submission leaves the
// stream. ok is false if there is none. The error is ErrNoStream if there is no
// stream of submissions.
func (c *Conn) QueuedSubmission(ctx context.Context, filter string) (m Stored, ok bool, err error) {
	m, ok, err = c.last(ctx, c.cfg.Space.Name("SUBMIT"), filter)
	if errors.Is(err, nats.ErrStreamNotFound) {
		return m, false, ErrNoStream
	}
	if err != nil {
		return m, false, fmt.Errorf("submission %s: %w", filter, err)
	}
	return m, ok, nil
}
