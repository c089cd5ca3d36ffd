package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/axebus/axe/provider"
)

// largeRequest is a size in bytes that proxies often refuse, by closing the
// connection.
const largeRequest = 1 << 20

// unreachable returns the error of an exchange without a response. Size is the
// length of the request in bytes.
func (e *Endpoint) unreachable(ctx context.Context, err error, size int64) error {
	if ctx.Err() != nil {
		return provider.ContextError(ctx)
	}
	// The text of a *url.Error has the whole URL. The text of its cause
	// does not.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if e.refusedHint != "" && isConnRefused(err) {
		return e.fail(provider.Server, 0, "connection refused: "+e.refusedHint+" (expected at "+e.base+")", err)
	}
	message := "cannot reach " + e.base + ": " + err.Error()
	if size > largeRequest && !isUnconnected(err) {
		const hint = "; the request has %.1f MB, which may be more than the server takes: shorten the task"
		message += fmt.Sprintf(hint, float64(size)/1e6)
	}
	return e.fail(networkCategory(err), 0, message, err)
}

// isUnconnected reports whether an exchange failed before the request was sent:
// the host was not found, did not accept a connection, or has no certificate
// that this machine trusts. So the request was not too large for it.
func isUnconnected(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// isConnRefused reports whether the host itself has refused the connection,
// since no server listens at its port. It returns false if a proxy has refused
// it.
func isConnRefused(err error) bool {
	const windows = syscall.Errno(10061) // WSAECONNREFUSED
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && (errors.Is(op, syscall.ECONNREFUSED) || errors.Is(op, windows))
}

// malformed returns the error of a complete body that is not a valid answer.
func (e *Endpoint) malformed(status int, body []byte, err error) error {
	message := "malformed answer: " + err.Error()
	if text := e.errorText(body); text != "" {
		message += ": " + text
	}
	return e.fail(provider.Server, status, message, err)
}

// stalled returns the error of an answer that has begun and came no further.
func (e *Endpoint) stalled(status, bytes int, err error) error {
	message := fmt.Sprintf("the answer stalled: %d bytes came, and then less than %d in %v "+
		"(idle_timeout in config.toml)", bytes, leastProgress, e.idle)
	return e.fail(provider.Timeout, status, message, cmp.Or(err, errStalled))
}

// refused returns the error of a status other than success. Size is the length
// of the request in bytes.
func (e *Endpoint) refused(resp *http.Response, body []byte, size int64) error {
	message := e.errorText(body)
	of := category(resp.StatusCode)
	if over, ok := overflow(resp.StatusCode, body); ok {
		message = over.String(size) + ": " + message
		of = provider.ContextWindow
	}
	if resp.StatusCode/100 == 3 {
		message = "redirected; check the base URL " + e.base
	}
	message = cmp.Or(message, http.StatusText(resp.StatusCode))
	if resp.StatusCode == http.StatusNotFound && errorMessage(body) == "" {
		// No provider sends a 404 in an unknown format.
		message += "; check the base URL " + e.base
	}
	return &provider.Error{
		Category:   of,
		Status:     resp.StatusCode,
		Message:    message,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now()),
	}
}

// fail returns an error with a message, which need not be printable.
func (e *Endpoint) fail(c provider.Category, status int, message string, err error) error {
	return &provider.Error{Category: c, Status: status, Message: e.printable(message, maxMessage), Err: err}
}

// networkCategory returns Timeout for a network timeout, and Server for any
// other error.
func networkCategory(err error) provider.Category {
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return provider.Timeout
	}
	return provider.Server
}
