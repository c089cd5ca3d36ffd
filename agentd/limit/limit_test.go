package limit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/limit"
	"github.com/axebus/axe/provider"
)

var noon = time.Date(2026, 3, 1, 12, 0, 10, 0, time.UTC)

func TestApply(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	minute := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	other := func(n, until int) map[string]limit.Holder {
		return map[string]limit.Holder{"b": {N: n, Until: at(until)}}
	}
	for _, tt := range []struct {
		name  string
		cfg   limit.Settings
		state limit.State
		step  limit.Step
		want  limit.Decision
	}{
		{"nothing is limited", limit.Settings{RetryAfter: true}, limit.State{}, limit.Step{Want: 9}, limit.Decision{Granted: 9}},
		{"room for two", limit.Settings{Concurrent: 8}, limit.State{Holders: other(4, 20)}, limit.Step{Held: 2, Want: 5}, limit.Decision{
			Granted: 2, Reason: limit.Concurrent, Next: at(10),
		}},
		{"the dead are forgotten", limit.Settings{Concurrent: 8}, limit.State{Holders: other(8, 0)}, limit.Step{Want: 5}, limit.Decision{
			Granted: 5, Next: at(10),
		}},
		{"a lease that nobody grants", limit.Settings{Concurrent: 8}, limit.State{Holders: other(8, 7200)}, limit.Step{Want: 1}, limit.Decision{
			Granted: 1, Next: at(10),
		}},
		{"somebody else's lease ends first", limit.Settings{Concurrent: 1}, limit.State{Holders: other(1, 5)}, limit.Step{Want: 1}, limit.Decision{
			Reason: limit.Concurrent, Next: at(5),
		}},
		{"a full window", limit.Settings{Requests: 3}, limit.State{Window: minute, Requests: 2}, limit.Step{Want: 2}, limit.Decision{
			Granted: 1, Reason: limit.Requests, Until: at(50), Next: at(30),
		}},
		{"another window", limit.Settings{Requests: 3}, limit.State{Window: minute.Add(-time.Minute), Requests: 3}, limit.Step{Want: 2}, limit.Decision{Granted: 2}},
		{"the window of a clock that is ahead", limit.Settings{Requests: 3}, limit.State{Window: minute.Add(time.Minute), Requests: 3}, limit.Step{Want: 1}, limit.Decision{
			Reason: limit.Requests, Until: at(110), Next: at(30),
		}},
		{"all tokens are spent", limit.Settings{Tokens: 100}, limit.State{Window: minute, Tokens: 90}, limit.Step{Want: 1, Ended: []limit.Result{{Tokens: 10}}}, limit.Decision{
			Reason: limit.Tokens, Until: at(50), Next: at(30),
		}},
		{"closed", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(5)}, limit.Step{Want: 1}, limit.Decision{
			Reason: limit.Closed, Until: at(5), Next: at(5),
		}},
		{"closed for ever", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(1 << 20)}, limit.Step{Want: 1}, limit.Decision{Granted: 1}},
		{"one goes first", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(0)}, limit.Step{Want: 3}, limit.Decision{
			Granted: 1, Probe: true, Reason: limit.Probing, Next: at(10),
		}},
		{"the others wait for it", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(-5), Probe: &limit.Probe{Worker: "b", Until: at(9)}}, limit.Step{Want: 3}, limit.Decision{
			Reason: limit.Probing, Next: at(9),
		}},
		{"the probe's worker died", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(-5), Probe: &limit.Probe{Worker: "b", Until: at(0)}}, limit.Step{Want: 1}, limit.Decision{
			Granted: 1, Probe: true, Next: at(10),
		}},
		{"a probe that was granted in vain", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(-5), Probe: &limit.Probe{Worker: "a", Until: at(9)}}, limit.Step{Want: 1}, limit.Decision{
			Granted: 1, Probe: true, Next: at(10),
		}},
		{"its success opens the gate", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(-5), Probe: &limit.Probe{Worker: "a", Until: at(9)}}, limit.Step{
			Want: 3, Ended: []limit.Result{{Probe: true, Passed: true}},
		}, limit.Decision{Granted: 3}},
		{"but not against a new refusal", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(-5), Probe: &limit.Probe{Worker: "a", Until: at(9)}}, limit.Step{
			Want: 3, Ended: []limit.Result{{Probe: true, Passed: true}, {Until: at(3)}},
		}, limit.Decision{Reason: limit.Closed, Until: at(3), Next: at(3)}},
		{"after a failure that says nothing another goes", limit.Settings{RetryAfter: true}, limit.State{ClosedUntil: at(-5), Probe: &limit.Probe{Worker: "a", Until: at(9)}}, limit.Step{
			Want: 3, Ended: []limit.Result{{Probe: true}},
		}, limit.Decision{Granted: 1, Probe: true, Reason: limit.Probing, Next: at(10)}},
	} {
		tt.step.Worker = "a"
		if _, got := tt.state.Apply(tt.cfg, tt.step, noon); !cmp.Equal(tt.want, got) {
			t.Errorf("%s:\n%s", tt.name, cmp.Diff(tt.want, got))
		}
	}
}

// TestNothingToSay: a step that changes nothing leaves the state as it is, so that nothing is written.
func TestNothingToSay(t *testing.T) {
	t.Parallel()
	s, _ := limit.State{}.Apply(limit.Settings{Concurrent: 2}, limit.Step{Worker: "a", Want: 1}, noon)
	later, _ := s.Apply(limit.Settings{Concurrent: 2}, limit.Step{Worker: "a", Held: 1}, noon.Add(9*time.Second))
	if diff := cmp.Diff(s, later); diff != "" {
		t.Error(diff)
	}
	if renewed, _ := s.Apply(limit.Settings{Concurrent: 2}, limit.Step{Worker: "a", Held: 1}, noon.Add(10*time.Second)); cmp.Equal(s, renewed) {
		t.Error("the lease was not renewed")
	}
	if open, _ := (limit.State{}).Apply(limit.Settings{RetryAfter: true}, limit.Step{Worker: "a", Held: 3, Want: 5}, noon); !cmp.Equal(limit.State{}, open) {
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
		want  limit.Result
	}{
		{"an answer", nil, false, limit.Result{Passed: true, Tokens: 12}},
		{"too many", failure(provider.RateLimit, time.Minute), false, limit.Result{Until: noon.Add(time.Minute)}},
		{"too busy", failure(provider.Overloaded, time.Minute), false, limit.Result{Until: noon.Add(time.Minute)}},
		{"for who knows how long", failure(provider.RateLimit, 0), false, limit.Result{}},
		{"the same of a probe", failure(provider.RateLimit, 0), true, limit.Result{Probe: true, Until: noon.Add(time.Second)}},
		{"a wrong key", failure(provider.Auth, 0), true, limit.Result{Probe: true, Passed: true}},
		{"a wrong request", failure(provider.BadRequest, 0), true, limit.Result{Probe: true, Passed: true}},
		{"broken", failure(provider.Server, time.Minute), true, limit.Result{Probe: true}},
		{"nobody there", failure(provider.Timeout, 0), true, limit.Result{Probe: true}},
	} {
		var resp *provider.Response
		if tt.err == nil {
			resp = &provider.Response{Usage: provider.Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 9}}
		}
		if diff := cmp.Diff(tt.want, limit.ResultOf(resp, tt.err, tt.probe, noon)); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

func TestDecodeTakesAnything(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"", "{", "7", `{"holders":7}`} {
		if diff := cmp.Diff(limit.State{}, limit.Decode([]byte(b))); diff != "" {
			t.Errorf("%q:\n%s", b, diff)
		}
	}
}
