package bus

import (
	"context"
	"time"
)

// removeTimeout bounds the removal of a timer.
const removeTimeout = 2 * time.Second

// RemoveTimer removes a timer, if it is there. It takes one request. A timer
// that a write removes (Message.Disarm) takes none. RemoveTimer gives up after
// two seconds: a timer that is left fires without an effect.
func RemoveTimer(ctx context.Context, c *Conn, subject string) error {
	stream, err := c.streams.Load().streamOf(subject)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return purge(ctx, c, stream, subject)
}
