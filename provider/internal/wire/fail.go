package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/axebus/axe/provider"
)

// unreachable maps an exchange that brought no response.
func (e *Endpoint) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	// A *url.Error shows the whole URL; its cause does not.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if e.hint != "" && refusedConnection(err) {
		message := e.line("connection refused: "+e.hint+" (expected at "+e.base+")", maxMessage)
		return &provider.Error{Category: provider.Server, Message: message, Err: err}
	}
	return e.fail(network(err), 0, "cannot reach "+e.base, err)
}

// refusedConnection: nobody listens at the host itself, a proxy is another
// matter.
func refusedConnection(err error) bool {
	const windows = syscall.Errno(10061) // WSAECONNREFUSED
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && (errors.Is(op, syscall.ECONNREFUSED) || errors.Is(op, windows))
}

// malformed maps a complete body that is not what was asked for.
func (e *Endpoint) malformed(status int, body []byte, err error) error {
	message := "malformed answer: " + err.Error()
	if begins := e.reason(body); begins != "" {
		message += ": " + begins
	}
	return &provider.Error{Category: provider.Server, Status: status, Message: e.line(message, maxMessage), Err: err}
}

// refused maps a status other than success.
func (e *Endpoint) refused(resp *http.Response, body []byte) error {
	message := e.reason(body)
	if resp.StatusCode/100 == 3 {
		message = "redirected; check the base URL " + e.base
	}
	if message == "" {
		message = http.StatusText(resp.StatusCode)
	}
	if resp.StatusCode == http.StatusNotFound && described(body) == "" {
		// no provider says it like this
		message += "; check the base URL " + e.base
	}
	return &provider.Error{
		Category:   category(resp.StatusCode),
		Status:     resp.StatusCode,
		Message:    message,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
}

func (e *Endpoint) fail(c provider.Category, status int, what string, err error) error {
	return &provider.Error{Category: c, Status: status, Message: e.line(what+": "+err.Error(), maxMessage), Err: err}
}

// ended is the error for a context that is over. A cancelled one is the
// caller's own doing, so no
// *provider.Error; a deadline that has passed is a timeout.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("asking the model: %w", err)
	}
	return &provider.Error{Category: provider.Timeout, Message: "no complete answer in time", Err: err}
}

// network tells a dial or a handshake that took too long from everything else.
func network(err error) provider.Category {
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return provider.Timeout
	}
	return provider.Server
}
