package run

import (
	"errors"
	"time"

	"github.com/axebus/axe/provider"
)

// Retry says whether and when a request to the model that failed is made again.
// It stands in the Start of a run, so that every worker keeps to it. The nil
// one makes no request again.
type Retry struct {
	Attempts int           `json:"attempts"` // in all, the first one counted
	Backoff  Backoff       `json:"backoff"`
	Initial  time.Duration `json:"initial_ns"` // before the second attempt
	// the longest pause, unless the provider asks for a longer one
	Max time.Duration `json:"max_ns"`
}

// Backoff says how the pauses grow.
type Backoff string

// The ways to grow. Anything else counts as Exponential.
const (
	// Initial, doubled each time, and by chance up to Initial more
	Exponential Backoff = "exponential"
	Linear      Backoff = "linear" // Initial, and Initial more each time
	Fixed       Backoff = "fixed"  // Initial
)

// Next decides whether a turn is asked once more after so many failed
// attempts, the last with err, and after which pause. Left is what is left of
// the run's time: who could only be asked after it is not asked. Chance, in [0,
// 1), spreads runs that failed together.
//
// The category of the error is the whole rule. So a malformed answer, which
// counts as the server's failure, is asked for again: it is mostly a proxy's,
// and passes. Timeout is the network's or the provider's here: a caller whose
// own time is over has no use for an answer and does not ask.
func (r *Retry) Next(failed int, err error, left time.Duration, chance float64) (pause time.Duration, again bool) {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || r == nil || failed < 1 || failed >= r.Attempts {
		return 0, false
	}
	switch e.Category {
	case provider.Auth, provider.BadRequest:
		return 0, false
	case provider.RateLimit, provider.Overloaded, provider.Server, provider.Timeout:
	}
	pause = max(r.pause(failed, chance), e.RetryAfter)
	return pause, pause < left
}

// pause is that after so many failed attempts. It never overflows, whatever
// stands in the log.
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

// sum is a and b together, and Max where that is less.
func (r *Retry) sum(a, b time.Duration) time.Duration {
	if a >= r.Max || b >= r.Max-a {
		return r.Max
	}
	return a + b
}
