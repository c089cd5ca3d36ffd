package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PermitsPublish reports whether the server lets the user of a connection
// publish to a subject. It publishes a message that has no effect: a stream
// refuses it, since it expects another stream, and the JetStream API refuses it,
// since its body is no JSON. The subject must not have been tried before on this
// connection, and must not have a subscriber that takes such a message.
func PermitsPublish(ctx context.Context, c *Conn, subject string) (bool, error) {
	m := nats.NewMsg(subject)
	m.Header.Set(jetstream.ExpectedStreamHeader, "none")
	m.Data = []byte("{")
	if err := c.nc.PublishMsg(m); err != nil {
		return false, fmt.Errorf("publish to %s: %w", subject, err)
	}
	return permits(ctx, c, "Publish", subject)
}

// PermitsSubscribe reports whether the server lets the user of a connection
// subscribe to a subject or pattern.
func PermitsSubscribe(ctx context.Context, c *Conn, subject string) (bool, error) {
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		return false, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	return permits(ctx, c, "Subscription", subject)
}

// permits reports whether the server has sent no violation. It sends one before
// it answers the flush, and the library notes it before that answer.
func permits(ctx context.Context, c *Conn, what, subject string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return false, fmt.Errorf("%s: %w", subject, err)
	}
	err := c.nc.LastError()
	violated := errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(err.Error(), "for "+what+" to "+strconv.Quote(subject))
	return !violated, nil
}
