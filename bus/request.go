package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// ErrNoResponder is the error of a request to a subject that has no subscriber.
// The request reached no service.
var ErrNoResponder = errors.New("nothing answers on the subject")

// Reply is the answer of a service.
type Reply struct {
	Header nats.Header
	Body   []byte
}

// Request sends a request to a service, once, and waits for its answer until
// ctx ends. The error wraps ErrNoResponder if nothing subscribes to the
// subject, and is the cause of ctx if ctx ended first. After every error but
// ErrNoResponder the service may have the request.
func Request(
	ctx context.Context, c *Conn, subject string, header map[string]string, body []byte,
) (Reply, error) {
	m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: body}
	for name, value := range header {
		m.Header.Set(name, value)
	}
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return Reply{}, fmt.Errorf("%w %s", ErrNoResponder, subject)
	case err != nil && ctx.Err() != nil:
		return Reply{}, context.Cause(ctx)
	case err != nil:
		return Reply{}, fmt.Errorf("request to %s: %w", subject, err)
	}
	return Reply{answer.Header, answer.Data}, nil
}
