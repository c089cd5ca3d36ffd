package provider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Category is the class of an Error. The set is closed, because exit codes and
// outcomes depend on it.
type Category string

// The categories of failure.
const (
	// Auth means that the key is missing or refused.
	Auth Category = "auth"
	// RateLimit means that the account has sent too many requests.
	RateLimit Category = "rate_limit"
	// Timeout means that no complete answer came in time.
	Timeout Category = "timeout"
	// Overloaded means that the provider is too busy.
	Overloaded Category = "overloaded"
	// BadRequest means that the request has a wrong model, size or format.
	BadRequest Category = "bad_request"
	// ContextWindow means that the conversation has more tokens than the
	// model's window.
	ContextWindow Category = "context_window"
	// Server means that the provider failed, sent a malformed answer, or
	// cannot be reached.
	Server Category = "server"
)

// Error is a failed Send.
type Error struct {
	Category Category
	// Status is the HTTP status, or 0 without a response.
	Status int
	// Message is one line without secrets. It is the provider's own text if
	// the response had one.
	Message string
	// RetryAfter is the pause that the provider asked for, or 0.
	RetryAfter time.Duration
	// Err is the cause, or nil.
	Err error
}

// Error returns the category, the status if there is one, and the message.
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Category, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Category, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ContextError returns the error of a Send after the end of its context. For a
// passed deadline it is a Timeout. For a cancellation, which is the caller's
// own decision, it is not an *Error, but wraps context.Canceled and the cause.
func ContextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("asking the model: %w", err)
	}
	return &Error{Category: Timeout, Message: "no complete answer in time", Err: err}
}
