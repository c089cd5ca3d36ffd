package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// Retry says what becomes of a request to the model that fails in a way that
// may pass. Unless MaxAttempts is 2 or more, nothing is tried again.
type Retry struct {
	MaxAttempts int // in all, the first one counted
	Backoff     Backoff
	// before the second attempt; 0 stands for 500 ms
	Initial time.Duration
	// the longest pause; 0 stands for 30 s
	Max time.Duration
}

// Backoff says how the pauses between attempts grow.
type Backoff string

// The ways to grow; the empty one stands for Exponential.
const (
	// twice as long each time, and by chance a little longer
	Exponential Backoff = "exponential"
	Linear      Backoff = "linear" // by the first pause each time
	Fixed       Backoff = "fixed"  // not at all
)

const (
	defaultInitial = 500 * time.Millisecond
	defaultMax     = 30 * time.Second
	// a typo must not keep a tree busy for ever
	maxAttempts   = 20
	maxRetryPause = time.Hour
)

// WithDefaults is r with its defaults.
func (r Retry) WithDefaults() Retry {
	r.Backoff = cmp.Or(r.Backoff, Exponential)
	r.Initial, r.Max = cmp.Or(r.Initial, defaultInitial), cmp.Or(r.Max, defaultMax)
	return r
}

func checkRetry(a Agent) *Error {
	err := nonNegative(
		setting{"retry.max_attempts", a.Retry.MaxAttempts},
		// an int may be too small for a duration
		setting{"retry.initial", cmp.Compare(a.Retry.Initial, 0)},
		setting{"retry.max", cmp.Compare(a.Retry.Max, 0)},
	)
	if err != nil {
		return err
	}
	r := a.Retry.WithDefaults()
	switch r.Backoff {
	case Exponential, Linear, Fixed:
	default:
		return invalid("retry.backoff", "retry.backoff must be one of: exponential, linear, fixed")
	}
	switch {
	case r.MaxAttempts > maxAttempts:
		return invalid("retry.max_attempts", fmt.Sprintf("retry.max_attempts cannot exceed %d", maxAttempts))
	case r.Max > maxRetryPause:
		return invalid("retry.max", "retry.max cannot exceed one hour")
	case r.Max < r.Initial && a.Retry.Max == 0:
		return invalid("retry.initial", fmt.Sprintf("retry.initial cannot exceed retry.max, which is %v", r.Max))
	case r.Max < r.Initial:
		return invalid(
			"retry.max",
			fmt.Sprintf("retry.max cannot be less than retry.initial, which is %v", r.Initial),
		)
	}
	return nil
}

// duration is a value that a file gives as "500ms", or as a number of seconds.
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
		return errors.New("no duration")
	}
	if !(math.Abs(seconds) < math.MaxInt64/float64(time.Second)) { // NaN too
		return errors.New("out of range")
	}
	*d = duration(seconds * float64(time.Second))
	return nil
}
