package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// RemoveAcknowledged removes the messages from the stream of a consumer that
// are acknowledged, up to the first one that is not. It makes one attempt. The
// next one removes the messages that it leaves.
func (c Consumers) RemoveAcknowledged(ctx context.Context, cfg ConsumerConfig) error {
	stream, _ := c.consumerConfig(cfg)
	_, err := askOnce(ctx, c.Conn, func(ctx context.Context) (none struct{}, err error) {
		there, err := c.js.Consumer(ctx, stream, cfg.Name)
		if err != nil {
			return none, err
		}
		floor := there.CachedInfo().AckFloor.Stream
		if floor == 0 {
			return none, nil
		}
		up := &nats.StreamPurgeRequest{Sequence: floor + 1}
		return none, c.leaders.PurgeStream(stream, up, nats.Context(ctx))
	})
	if err != nil {
		return fmt.Errorf("acknowledged messages of consumer %s: %w", cfg.Name, err)
	}
	return nil
}

// QueuedSubmission reads the last submission that the filter matches. Workers
// remove submissions some time after they have made them calls, so the caller
// looks for the root's call first. ok is false if there is none. The error is
// ErrNoStream if there is no stream of submissions.
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
