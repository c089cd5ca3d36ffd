package ratelimit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/provider"
)

var noon = time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)

func TestApply(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	minute := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	other := func(n, until int) map[string]ratelimit.Holder {
		return map[string]ratelimit.Holder{"b": {N: n, Until: at(until)}}
	}
	for _, tt := range []struct {
		name  string
		cfg   ratelimit.Settings
		state ratelimit.State
		step  ratelimit.Update
		want  ratelimit.Decision
	}{
		{"nothing is limited", ratelimit.Settings{RetryAfter: true}, ratelimit.State{}, ratelimit.Update{Want: 9}, ratelimit.Decision{Granted: 9}},
		{"room for two", ratelimit.Settings{Concurrent: 8}, ratelimit.State{Holders: other(4, 20)}, ratelimit.Update{Held: 2, Want: 5}, ratelimit.Decision{
			Granted: 2, Reason: ratelimit.Concurrent, Next: at(10),
		}},
		{"the dead are forgotten", ratelimit.Settings{Concurrent: 8}, ratelimit.State{Holders: other(8, 0)}, ratelimit.Update{Want: 5}, ratelimit.Decision{
			Granted: 5, Next: at(10),
		}},
		{"a lease that nobody grants", ratelimit.Settings{Concurrent: 8}, ratelimit.State{Holders: other(8, 7200)}, ratelimit.Update{Want: 1}, ratelimit.Decision{
			Granted: 1, Next: at(10),
		}},
		{"somebody else's lease ends first", ratelimit.Settings{Concurrent: 1}, ratelimit.State{Holders: other(1, 5)}, ratelimit.Update{Want: 1}, ratelimit.Decision{
			Reason: ratelimit.Concurrent, Next: at(5),
		}},
		{"a full window", ratelimit.Settings{Requests: 3}, ratelimit.State{Window: minute, Requests: 2}, ratelimit.Update{Want: 2}, ratelimit.Decision{
			Granted: 1, Reason: ratelimit.Requests, Until: at(50), Next: at(30),
		}},
		{"another window", ratelimit.Settings{Requests: 3}, ratelimit.State{Window: minute.Add(-time.Minute), Requests: 3}, ratelimit.Update{Want: 2}, ratelimit.Decision{Granted: 2}},
		{"the window of a clock that is ahead", ratelimit.Settings{Requests: 3}, ratelimit.State{Window: minute.Add(time.Minute), Requests: 3}, ratelimit.Update{Want: 1}, ratelimit.Decision{
			Reason: ratelimit.Requests, Until: at(110), Next: at(30),
		}},
		{"all tokens are spent", ratelimit.Settings{Tokens: 100}, ratelimit.State{Window: minute, Tokens: 90}, ratelimit.Update{Want: 1, Ended: []ratelimit.Result{{Tokens: 10}}}, ratelimit.Decision{
			Reason: ratelimit.Tokens, Until: at(50), Next: at(30),
		}},
		{"closed", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(5)}, ratelimit.Update{Want: 1}, ratelimit.Decision{
			Reason: ratelimit.Closed, Until: at(5), Next: at(5),
		}},
		{"closed for ever", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(1 << 20)}, ratelimit.Update{Want: 1}, ratelimit.Decision{Granted: 1}},
		{"one goes first", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(0)}, ratelimit.Update{Want: 3}, ratelimit.Decision{
			Granted: 1, Probe: true, Reason: ratelimit.Probing, Next: at(10),
		}},
		{"the others wait for it", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: "b", Until: at(9)}}, ratelimit.Update{Want: 3}, ratelimit.Decision{
			Reason: ratelimit.Probing, Next: at(9),
		}},
		{"the probe's worker died", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: "b", Until: at(0)}}, ratelimit.Update{Want: 1}, ratelimit.Decision{
			Granted: 1, Probe: true, Next: at(10),
		}},
		{"a probe that was granted in vain", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: "a", Until: at(9)}}, ratelimit.Update{Want: 1}, ratelimit.Decision{
			Granted: 1, Probe: true, Next: at(10),
		}},
		{"its success opens the gate", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: "a", Until: at(9)}}, ratelimit.Update{
			Want: 3, Ended: []ratelimit.Result{{Probe: true, Passed: true}},
		}, ratelimit.Decision{Granted: 3}},
		{"but not against a new refusal", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: "a", Until: at(9)}}, ratelimit.Update{
			Want: 3, Ended: []ratelimit.Result{{Probe: true, Passed: true}, {Until: at(3)}},
		}, ratelimit.Decision{Reason: ratelimit.Closed, Until: at(3), Next: at(3)}},
		{"after a failure that says nothing another goes", ratelimit.Settings{RetryAfter: true}, ratelimit.State{ClosedUntil: at(-5), Probe: &ratelimit.Probe{Worker: "a", Until: at(9)}}, ratelimit.Update{
			Want: 3, Ended: []ratelimit.Result{{Probe: true}},
		}, ratelimit.Decision{Granted: 1, Probe: true, Reason: ratelimit.Probing, Next: at(10)}},
	} {
		tt.step.Worker = "a"
		if _, got := tt.state.Apply(tt.cfg, tt.step, noon); !cmp.Equal(tt.want, got) {
			t.Errorf("%s:\n%s", tt.name, cmp.Diff(tt.want, got))
		}
	}
}

// TestNothingToSay: a step that changes nothing leaves the state as it is, so
// that nothing is written.
func TestNothingToSay(t *testing.T) {
	t.Parallel()
	s, _ := ratelimit.State{}.Apply(ratelimit.Settings{Concurrent: 2}, ratelimit.Update{Worker: "a", Want: 1}, noon)
	later, _ := s.Apply(
		ratelimit.Settings{Concurrent: 2},
		ratelimit.Update{Worker: "a", Held: 1},
		noon.Add(9*time.Second),
	)
	if diff := cmp.Diff(s, later); diff != "" {
		t.Error(diff)
	}
	if renewed, _ := s.Apply(ratelimit.Settings{Concurrent: 2}, ratelimit.Update{Worker: "a", Held: 1}, noon.Add(10*time.Second)); cmp.Equal(
		s,
		renewed,
	) {
		t.Error("the lease was not renewed")
	}
	if open, _ := (ratelimit.State{}).Apply(ratelimit.Settings{RetryAfter: true}, ratelimit.Update{Worker: "a", Held: 3, Want: 5}, noon); !cmp.Equal(
		ratelimit.State{},
		open,
	) {
		t.Errorf("%+v", open)
	}
}

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
		{"too many", failure(provider.RateLimit, time.Minute), false, ratelimit.Result{Until: noon.Add(time.Minute)}},
		{"too busy", failure(provider.Overloaded, time.Minute), false, ratelimit.Result{Until: noon.Add(time.Minute)}},
		{"for who knows how long", failure(provider.RateLimit, 0), false, ratelimit.Result{}},
		{"the same of a probe", failure(provider.RateLimit, 0), true, ratelimit.Result{Probe: true, Until: noon.Add(time.Second)}},
		{"a wrong key", failure(provider.Auth, 0), true, ratelimit.Result{Probe: true, Passed: true}},
		{"a wrong request", failure(provider.BadRequest, 0), true, ratelimit.Result{Probe: true, Passed: true}},
		{"broken", failure(provider.Server, time.Minute), true, ratelimit.Result{Probe: true}},
		{"nobody there", failure(provider.Timeout, 0), true, ratelimit.Result{Probe: true}},
	} {
		var resp *provider.Response
		if tt.err == nil {
			resp = &provider.Response{Usage: provider.Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 9}}
		}
		if diff := cmp.Diff(tt.want, ratelimit.ResultOf(resp, tt.err, tt.probe, noon)); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

func TestDecodeTakesAnything(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "{", "7", `{"holders":7}`} {
		if diff := cmp.Diff(ratelimit.State{}, ratelimit.Decode([]byte(b))); diff != "" {
			t.Errorf("%q:\n%s", b, diff)
		}
	}
}
