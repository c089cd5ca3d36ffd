package run

import (
	"errors"
	"time"

	"github.com/axebus/axe/provider"
)

// Retry says whether and when a failed request to the model is made again. It
// is stored in the Start of a run, so that every worker keeps to it. A nil
// Retry makes no request again.
type Retry struct {
	// Attempts bounds the requests for a turn, the first one included.
	Attempts int     `json:"attempts"`
	Backoff  Backoff `json:"backoff"`
	// Initial is the pause before the second request.
	Initial time.Duration `json:"initial_ns"`
	// Max bounds a pause, unless the provider asks for a longer one.
	Max time.Duration `json:"max_ns"`
}

// Backoff says how the pauses grow.
type Backoff string

// The ways to grow. Any other value counts as Exponential.
const (
	// Exponential doubles the pause each time, and adds up to Initial by
	// chance.
	Exponential Backoff = "exponential"
	// Linear adds Initial to the pause each time.
	Linear Backoff = "linear"
	// Fixed keeps the pause at Initial.
	Fixed Backoff = "fixed"
)

// Next decides whether the model is asked again for a turn, and after which
// pause. Failed is the number of failed requests, and err the error of the last
// one. The model is not asked again if the pause is not shorter than left, the
// rest of the run's time. In all other cases in which it is not asked again,
// the pause is 0. Chance, in [0, 1), spreads runs that failed together.
//
// The category alone says whether an error may pass. A malformed answer counts
// as the server's failure and is asked for again: most come from a proxy, and
// pass. A timeout is that of the network or the provider.
func (r *Retry) Next(failed int, err error, left time.Duration, chance float64) (pause time.Duration, again bool) {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || r == nil || failed < 1 || failed >= r.Attempts {
		return 0, false
	}
	switch e.Category {
	case provider.Auth, provider.BadRequest, provider.ContextWindow:
		return 0, false
	case provider.RateLimit, provider.Overloaded, provider.Server, provider.Timeout:
	}
	pause = max(r.pause(failed, chance), e.RetryAfter)
	return pause, pause < left
}

// pause returns the pause after a number of failed requests. It never
// overflows, whatever the log says.
func (r *Retry) pause(failed int, chance float64) time.Duration {
	p := r.Initial
	switch r.Backoff {
	case Fixed:
	case Linear:
		for i := 1; i < failed && p < r.Max; i++ {
			p = r.sum(p, r.Initial)
		}
	case Exponential:
		fallthrough
	default:
		for i := 1; i < failed && p < r.Max; i++ {
			p = r.sum(p, p)
		}
		p = r.sum(p, time.Duration(chance*float64(r.Initial)))
	}
	return max(0, min(p, r.Max))
}

// sum returns a+b, at most Max.
func (r *Retry) sum(a, b time.Duration) time.Duration {
	if a >= r.Max || b >= r.Max-a {
		return r.Max
	}
	return a + b
}
