package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Retry says how a worker repeats a request to the model after a failure that
// may pass.
type Retry struct {
	// MaxAttempts counts the first attempt too. With 0 or 1 a worker does
	// not retry. An agent whose file does not set it has
	// DefaultMaxAttempts.
	MaxAttempts int
	Backoff     Backoff
	// Initial is the pause before the second attempt. 0 stands for 500 ms.
	Initial time.Duration
	// Max is the longest pause. 0 stands for 30 s.
	Max time.Duration
}

// Backoff says how the pauses between attempts grow. The empty value stands for
// Exponential.
type Backoff string

// The ways to grow.
const (
	// Exponential doubles the pause each time, and adds a random part.
	Exponential Backoff = "exponential"
	// Linear adds the first pause each time.
	Linear Backoff = "linear"
	// Fixed keeps the pause.
	Fixed Backoff = "fixed"
)

// DefaultMaxAttempts is the number of attempts of an agent with a file that
// sets no other. Agents that begin side by side meet the rate limit of their
// provider at once.
const DefaultMaxAttempts = 3

const (
	defaultInitial = 500 * time.Millisecond
	defaultMax     = 30 * time.Second
	// maxAttempts keeps a typo from retrying for days.
	maxAttempts   = 20
	maxRetryPause = time.Hour
)

// WithDefaults returns r with defaults in place of zero values.
func (r Retry) WithDefaults() Retry {
	r.Backoff = cmp.Or(r.Backoff, Exponential)
	r.Initial = cmp.Or(r.Initial, defaultInitial)
	r.Max = cmp.Or(r.Max, defaultMax)
	return r
}

func checkRetry(a Agent) *Error {
	r := a.Retry.WithDefaults()
	switch {
	case !slices.Contains([]Backoff{Exponential, Linear, Fixed}, r.Backoff):
		return invalid("retry.backoff", "retry.backoff must be one of: exponential, linear, fixed")
	case r.Max > maxRetryPause:
		return invalid("retry.max", "retry.max cannot exceed one hour")
	case r.Max < r.Initial && a.Retry.Max == 0:
		return invalid("retry.initial", fmt.Sprintf("retry.initial cannot exceed retry.max, which is %v", r.Max))
	case r.Max < r.Initial:
		return invalid("retry.max", fmt.Sprintf("retry.max cannot be less than retry.initial, which is %v", r.Initial))
	}
	return nil
}

// duration is a value that a file writes as "500ms" or as a number of seconds.
type duration time.Duration

// UnmarshalTOML reads either form.
func (d *duration) UnmarshalTOML(value any) error {
	var seconds float64
	switch v := value.(type) {
	case string:
		parsed, err := time.ParseDuration(v)
		*d = duration(parsed)
		return err
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	default:
		return errors.New("not a duration")
	}
	if !(math.Abs(seconds) < math.MaxInt64/float64(time.Second)) { // NaN too
		return errors.New("out of range")
	}
	*d = duration(seconds * float64(time.Second))
	return nil
}
