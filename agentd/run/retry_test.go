package run_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// TestRetryPauses: the pauses grow as the backoff says, up to Max.
func TestRetryPauses(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, tt := range []struct {
		backoff run.Backoff
		chance  float64
		want    []time.Duration
	}{
		{run.Exponential, 0, []time.Duration{s, 2 * s, 4 * s, 8 * s, 10 * s, 10 * s}},
		{run.Exponential, 0.5, []time.Duration{
			1500 * time.Millisecond, 2500 * time.Millisecond,
			4500 * time.Millisecond, 8500 * time.Millisecond, 10 * s, 10 * s,
		}},
		{run.Linear, 0.5, []time.Duration{s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s, 10 * s, 10 * s}},
		{run.Fixed, 0.5, []time.Duration{s, s, s, s}},
		{"of another version", 0, []time.Duration{s, 2 * s, 4 * s}},
	} {
		r := &run.Retry{Attempts: 20, Backoff: tt.backoff, Initial: s, Max: 10 * s}
		for i, want := range tt.want {
			pause, again := r.Next(i+1, &provider.Error{Category: provider.Server}, time.Hour, tt.chance)
			if pause != want || !again {
				t.Errorf("%s with chance %v after %d failures: pause %v, again %t, want %v, true",
					tt.backoff, tt.chance, i+1, pause, again, want)
			}
		}
	}
}

// TestRetryDecides: Next decides by the error, the attempts and the time left.
func TestRetryDecides(t *testing.T) {
	t.Parallel()
	two := &run.Retry{Attempts: 2, Backoff: run.Fixed, Initial: time.Second, Max: 2 * time.Second}
	limited := &provider.Error{Category: provider.RateLimit, Status: 429}
	retryAfter := func(d time.Duration) error {
		return &provider.Error{Category: provider.Overloaded, RetryAfter: d}
	}
	for _, tt := range []struct {
		name   string
		policy *run.Retry
		failed int
		err    error
		left   time.Duration
		want   time.Duration // -1: not again
	}{
		{"off", nil, 1, limited, time.Hour, -1},
		{"no attempt left", two, 2, limited, time.Hour, -1},
		{"one attempt", &run.Retry{Attempts: 1}, 1, limited, time.Hour, -1},
		{"rate limit", two, 1, limited, time.Hour, time.Second},
		{"overloaded", two, 1, retryAfter(0), time.Hour, time.Second},
		{"unreachable", two, 1, &provider.Error{Category: provider.Server}, time.Hour, time.Second},
		{"malformed answer", two, 1, &provider.Error{Category: provider.Server, Status: 200}, time.Hour, time.Second},
		{"the network's timeout", two, 1, &provider.Error{Category: provider.Timeout}, time.Hour, time.Second},
		{"wrapped", two, 1, fmt.Errorf("model: %w", limited), time.Hour, time.Second},
		{"auth", two, 1, &provider.Error{Category: provider.Auth, Status: 401}, time.Hour, -1},
		{"bad request", two, 1, &provider.Error{Category: provider.BadRequest, Status: 400}, time.Hour, -1},
		{"too long", two, 1, &provider.Error{Category: provider.ContextWindow, Status: 400}, time.Hour, -1},
		{"not an error of the provider", two, 1, errors.New("cancelled"), time.Hour, -1},
		{"retry after less than the pause", two, 1, retryAfter(time.Millisecond), time.Hour, time.Second},
		{"retry after more than the longest pause", two, 1, retryAfter(time.Minute), time.Hour, time.Minute},
		{"retry after the run's deadline", two, 1, retryAfter(time.Minute), time.Minute, -1},
		{"no time left", two, 1, limited, time.Second, -1},
	} {
		pause, again := tt.policy.Next(tt.failed, tt.err, tt.left, 0)
		if again != (tt.want >= 0) || again && pause != tt.want {
			t.Errorf("%s: pause %v, again %t, want %v (-1ns: not again)", tt.name, pause, again, tt.want)
		}
	}
}

// TestSimRetry: pauses do not shrink and do not exceed Max, whatever the log
// says. Chance adds at most Initial.
func TestSimRetry(t *testing.T) {
	t.Parallel()
	failure := &provider.Error{Category: provider.Server}
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.OneOf(rapid.Int64Range(0, int64(time.Minute)), rapid.Int64Range(0, math.MaxInt64))
		r := &run.Retry{
			Attempts: 1000, Initial: time.Duration(span.Draw(t, "initial")), Max: time.Duration(span.Draw(t, "max")),
			Backoff: rapid.SampledFrom([]run.Backoff{run.Exponential, run.Linear, run.Fixed}).Draw(t, "backoff"),
		}
		chance := rapid.Float64Range(0, 0.999)
		last := time.Duration(0)
		for failed := range rapid.IntRange(1, 100).Draw(t, "attempts") {
			pause, _ := r.Next(failed+1, failure, math.MaxInt64, chance.Draw(t, "chance"))
			least, _ := r.Next(failed+1, failure, math.MaxInt64, 0)
			switch {
			case pause < last || pause > r.Max:
				t.Fatalf("after %d failures the pause is %v, want %v to %v", failed+1, pause, last, r.Max)
			case pause < least || pause-least > r.Initial:
				t.Fatalf("with chance the pause is %v, without it %v, want at most %v more", pause, least, r.Initial)
			case failed > 64 && r.Initial > 0 && r.Backoff == run.Exponential && pause != r.Max:
				// It was doubled more often than a Duration has bits.
				t.Fatalf("after %d failures the pause is %v, want %v", failed+1, pause, r.Max)
			}
			last = pause
		}
	})
}
