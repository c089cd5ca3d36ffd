package ratelimit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/provider"
)

// now is ten seconds into a window.
var now = time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)

// TestApply: the decision about an update of worker a, for each rule of Apply.
func TestApply(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	minute := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	other := func(n, until int) map[string]ratelimit.Holder {
		return map[string]ratelimit.Holder{"b": {N: n, Until: at(until)}}
	}
	probeOf := func(worker string, until int) ratelimit.State {
		return ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: worker, Until: at(until)}}
	}
	retryAfter := ratelimit.Settings{RetryAfter: true}
	for _, tt := range []struct {
		name   string
		cfg    ratelimit.Settings
		state  ratelimit.State
		update ratelimit.Update
		want   ratelimit.Decision
	}{
		{
			name:   "nothing is limited",
			cfg:    retryAfter,
			update: ratelimit.Update{Want: 9},
			want:   ratelimit.Decision{Granted: 9},
		},
		{
			name:   "room for two",
			cfg:    ratelimit.Settings{Concurrent: 8},
			state:  ratelimit.State{Holders: other(4, 20)},
			update: ratelimit.Update{Held: 2, Want: 5},
			want:   ratelimit.Decision{Granted: 2, Reason: ratelimit.Concurrent, Next: at(10)},
		},
		{
			name:   "requests of a dead worker are forgotten",
			cfg:    ratelimit.Settings{Concurrent: 8},
			state:  ratelimit.State{Holders: other(8, 0)},
			update: ratelimit.Update{Want: 5},
			want:   ratelimit.Decision{Granted: 5, Next: at(10)},
		},
		{
			name:   "a lease longer than any worker takes",
			cfg:    ratelimit.Settings{Concurrent: 8},
			state:  ratelimit.State{Holders: other(8, 7200)},
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Granted: 1, Next: at(10)},
		},
		{
			name:   "another worker's lease ends first",
			cfg:    ratelimit.Settings{Concurrent: 1},
			state:  ratelimit.State{Holders: other(1, 5)},
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Reason: ratelimit.Concurrent, Next: at(5)},
		},
		{
			name:   "a full window",
			cfg:    ratelimit.Settings{Requests: 3},
			state:  ratelimit.State{Window: minute, Requests: 2},
			update: ratelimit.Update{Want: 2},
			want:   ratelimit.Decision{Granted: 1, Reason: ratelimit.Requests, Until: at(50), Next: at(30)},
		},
		{
			name:   "another window",
			cfg:    ratelimit.Settings{Requests: 3},
			state:  ratelimit.State{Window: minute.Add(-time.Minute), Requests: 3},
			update: ratelimit.Update{Want: 2},
			want:   ratelimit.Decision{Granted: 2},
		},
		{
			name:   "the window of a clock that is ahead",
			cfg:    ratelimit.Settings{Requests: 3},
			state:  ratelimit.State{Window: minute.Add(time.Minute), Requests: 3},
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Reason: ratelimit.Requests, Until: at(110), Next: at(30)},
		},
		{
			name:   "all tokens of the window are used",
			cfg:    ratelimit.Settings{Tokens: 100},
			state:  ratelimit.State{Window: minute, Tokens: 90},
			update: ratelimit.Update{Want: 1, Ended: []ratelimit.Result{{Tokens: 10}}},
			want:   ratelimit.Decision{Reason: ratelimit.Tokens, Until: at(50), Next: at(30)},
		},
		{
			name:   "closed",
			cfg:    retryAfter,
			state:  ratelimit.State{ClosedUntil: at(5)},
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Reason: ratelimit.Closed, Until: at(5), Next: at(5)},
		},
		{
			name:   "closed for longer than any provider asks",
			cfg:    retryAfter,
			state:  ratelimit.State{ClosedUntil: at(1 << 20)},
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Granted: 1},
		},
		{
			name:   "the probe goes first",
			cfg:    retryAfter,
			state:  ratelimit.State{ClosedUntil: at(0)},
			update: ratelimit.Update{Want: 3},
			want:   ratelimit.Decision{Granted: 1, Probe: true, Reason: ratelimit.Probing, Next: at(10)},
		},
		{
			name:   "the others wait for the probe",
			cfg:    retryAfter,
			state:  probeOf("b", 9),
			update: ratelimit.Update{Want: 3},
			want:   ratelimit.Decision{Reason: ratelimit.Probing, Next: at(9)},
		},
		{
			name:   "the probe's worker died",
			cfg:    retryAfter,
			state:  probeOf("b", 0),
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Granted: 1, Probe: true, Next: at(10)},
		},
		{
			name:   "the probe's grant was stored and its acknowledgement lost",
			cfg:    retryAfter,
			state:  probeOf("a", 9),
			update: ratelimit.Update{Want: 1},
			want:   ratelimit.Decision{Granted: 1, Probe: true, Next: at(10)},
		},
		{
			name:   "the probe's success opens the account",
			cfg:    retryAfter,
			state:  probeOf("a", 9),
			update: ratelimit.Update{Want: 3, Ended: []ratelimit.Result{{Probe: true, Passed: true}}},
			want:   ratelimit.Decision{Granted: 3},
		},
		{
			name:   "a new refusal outweighs the probe's success",
			cfg:    retryAfter,
			state:  probeOf("a", 9),
			update: ratelimit.Update{Want: 3, Ended: []ratelimit.Result{{Probe: true, Passed: true}, {Until: at(3)}}},
			want:   ratelimit.Decision{Reason: ratelimit.Closed, Until: at(3), Next: at(3)},
		},
		{
			name:   "another probe goes after a failure that says nothing",
			cfg:    retryAfter,
			state:  probeOf("a", 9),
			update: ratelimit.Update{Want: 3, Ended: []ratelimit.Result{{Probe: true}}},
			want:   ratelimit.Decision{Granted: 1, Probe: true, Reason: ratelimit.Probing, Next: at(10)},
		},
	} {
		tt.update.Worker = "a"
		_, got := tt.state.Apply(tt.cfg, tt.update, now)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: decision (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestNoNewsChangesNothing: an update without news leaves the state as it is,
// so that nothing is written. After 10 of the 30 seconds of a lease it renews
// the lease. An open account without a limit has no state.
func TestNoNewsChangesNothing(t *testing.T) {
	t.Parallel()
	two := ratelimit.Settings{Concurrent: 2}
	s, _ := ratelimit.State{}.Apply(two, ratelimit.Update{Worker: "a", Want: 1}, now)
	held := ratelimit.Update{Worker: "a", Held: 1}
	later, _ := s.Apply(two, held, now.Add(9*time.Second))
	if diff := cmp.Diff(s, later); diff != "" {
		t.Errorf("state 9 seconds later (-before +after):\n%s", diff)
	}
	if renewed, _ := s.Apply(two, held, now.Add(10*time.Second)); cmp.Equal(s, renewed) {
		t.Error("the lease was not renewed after 10 seconds")
	}
	busy := ratelimit.Update{Worker: "a", Held: 3, Want: 5}
	open, _ := ratelimit.State{}.Apply(ratelimit.Settings{RetryAfter: true}, busy, now)
	if !cmp.Equal(ratelimit.State{}, open) {
		t.Errorf("got the state %+v of an open account without a limit, want none", open)
	}
}

// TestResultOf: the result of an answer, and of an error of each kind that
// matters to the limits.
func TestResultOf(t *testing.T) {
	t.Parallel()
	failure := func(c provider.Category, after time.Duration) error {
		return &provider.Error{Category: c, RetryAfter: after}
	}
	for _, tt := range []struct {
		name  string
		err   error
		probe bool
		want  ratelimit.Result
	}{
		{"an answer", nil, false, ratelimit.Result{Passed: true, Tokens: 12}},
		{"rate limit", failure(provider.RateLimit, time.Minute), false, ratelimit.Result{Until: now.Add(time.Minute)}},
		{"overloaded", failure(provider.Overloaded, time.Minute), false, ratelimit.Result{Until: now.Add(time.Minute)}},
		{"rate limit without a Retry-After", failure(provider.RateLimit, 0), false, ratelimit.Result{}},
		{
			"rate limit of a probe without a Retry-After", failure(provider.RateLimit, 0), true,
			ratelimit.Result{Probe: true, Until: now.Add(time.Second)},
		},
		{"a wrong key", failure(provider.Auth, 0), true, ratelimit.Result{Probe: true, Passed: true}},
		{"a wrong request", failure(provider.BadRequest, 0), true, ratelimit.Result{Probe: true, Passed: true}},
		{"server error", failure(provider.Server, time.Minute), true, ratelimit.Result{Probe: true}},
		{"timeout", failure(provider.Timeout, 0), true, ratelimit.Result{Probe: true}},
	} {
		var resp *provider.Response
		if tt.err == nil {
			resp = &provider.Response{Usage: provider.Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 9}}
		}
		if diff := cmp.Diff(tt.want, ratelimit.ResultOf(resp, tt.err, tt.probe, now)); diff != "" {
			t.Errorf("%s: result (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestDecodeTakesAnything: a body that cannot be read decodes to the zero
// state.
func TestDecodeTakesAnything(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "{", "7", `{"holders":7}`} {
		if diff := cmp.Diff(ratelimit.State{}, ratelimit.Decode([]byte(b))); diff != "" {
			t.Errorf("state of the body %q (-want +got):\n%s", b, diff)
		}
	}
}
