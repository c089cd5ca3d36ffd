package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// removeTimeout bounds the removal of a timer.
const removeTimeout = 2 * time.Second

// RemoveTimer removes a timer, if it is there. It takes one request. A timer
// that a write removes (Message.Disarm) takes none. RemoveTimer gives up after
// two seconds: a timer that is left fires without an effect.
func RemoveTimer(ctx context.Context, c *Conn, subject string) error {
	if err := c.intercept(Point{"purge", subject, false}); err != nil {
		return err
	}
	stream, err := c.streams.Load().streamOf(subject)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	_, err = ask(ctx, c, func(ctx context.Context) (none struct{}, err error) {
		return none, c.leaders.PurgeStream(stream, &nats.StreamPurgeRequest{Subject: subject}, nats.Context(ctx))
	})
	if err != nil {
		return wrapStream(stream, err)
	}
	return c.intercept(Point{"purge", subject, true})
}
