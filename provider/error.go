package provider

import (
	"fmt"
	"time"
)

// Category says what kind of failure an Error is. The set is closed: exit codes
// and outcomes build on it.
type Category string

// The categories of failure.
const (
	// no key, or one that is refused
	Auth      Category = "auth"
	RateLimit Category = "rate_limit" // too many requests
	Timeout   Category = "timeout"    // no complete answer in time
	// the provider says that it is too busy
	Overloaded Category = "overloaded"
	// the request is wrong: model, size, format
	BadRequest Category = "bad_request"
	// the provider failed, answered nonsense, or cannot be reached
	Server Category = "server"
)

// Error is a failed Send. Message is the provider's own text where there was
// one.
type Error struct {
	Category Category
	// HTTP status, 0 if there was none
	Status  int
	Message string // one line, no secrets
	// what the provider asked for, 0 if nothing
	RetryAfter time.Duration
	Err        error // the cause, if any
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
