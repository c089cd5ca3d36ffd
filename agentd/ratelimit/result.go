package ratelimit

import (
	"errors"
	"time"

	"github.com/axebus/axe/provider"
)

// Result is what a request that has ended tells of its provider.
type Result struct {
	Probe  bool
	Passed bool // the provider took it
	// the provider wants to be left alone until then; zero: it does not
	Until  time.Time
	Tokens int
}

// sulking is how long a gate stays closed after a probe that was refused
// without a Retry-After.
const sulking = time.Second

// ResultOf reads what came of a request at a time. A request that is wrong, or
// whose key is, was taken: the provider is not too busy. What failed in any
// other way says nothing; after such a probe another one goes.
func ResultOf(resp *provider.Response, err error, probe bool, now time.Time) Result {
	r := Result{Probe: probe, Passed: err == nil}
	if resp != nil {
		r.Tokens = resp.InputTokens + resp.OutputTokens
	}
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		return r
	}
	switch e.Category {
	case provider.RateLimit, provider.Overloaded:
		pause := e.RetryAfter
		if probe {
			pause = max(pause, sulking)
		}
		if pause > 0 {
			r.Until = now.Add(pause).UTC()
		}
	case provider.Auth, provider.BadRequest:
		r.Passed = true
	case provider.Server, provider.Timeout:
	}
	return r
}
