package ratelimit

import (
	"errors"
	"time"

	"github.com/axebus/axe/provider"
)

// Result is the end of one request, as far as it tells about its provider.
type Result struct {
	// Probe says that the request was the probe.
	Probe bool
	// Passed says that the provider took the request.
	Passed bool
	// Until is the end of the pause that the provider has asked for, or
	// that follows a refused probe; zero if there is none.
	Until time.Time
	// Tokens is the number of input and output tokens.
	Tokens int
}

// probeCooldown is the shortest pause after a probe that was refused.
const probeCooldown = time.Second

// ResultOf returns the result of a request that ended at now. A refusal, of the
// category RateLimit or Overloaded, closes the account for its Retry-After;
// that of a probe closes it for a second at least. A request that is malformed,
// or has a wrong key, counts as taken: the provider is not too busy. Any other
// failure says nothing; after such a probe another one goes.
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
			pause = max(pause, probeCooldown)
		}
		if pause > 0 {
			r.Until = now.Add(pause).UTC()
		}
	case provider.Auth, provider.BadRequest, provider.ContextWindow:
		r.Passed = true
	case provider.Server, provider.Timeout:
	}
	return r
}
