package subjects

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// must parses a token, which must be well-formed.
func must[T any](t *testing.T, parse func(string) (T, error), s string) T {
	t.Helper()
	v, err := parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestNewSpace: a space has a prefix of one or more tokens, or the default one.
// A malformed prefix is an error.
func TestNewSpace(t *testing.T) {
	for _, prefix := range []string{"axe", "a.b", "Team-1.axe_2", strings.Repeat("a", 64)} {
		if s, err := NewSpace(prefix); err != nil || s.Prefix() != prefix {
			t.Errorf("the space of %q has the prefix %q, error %v", prefix, s.Prefix(), err)
		}
	}
	if s, err := NewSpace(""); err != nil || s != (Space{}) || s.Prefix() != DefaultPrefix {
		t.Errorf("the default prefix is %q, error %v, want %q", s.Prefix(), err, DefaultPrefix)
	}
	for _, prefix := range []string{
		".", "a.", ".a", "a..b", "a b", "*", "a.>", "$JS", "é", "a\n", strings.Repeat("a", 65),
	} {
		if s, err := NewSpace(prefix); !errors.Is(err, ErrToken) || s != (Space{}) {
			t.Errorf("%q makes the space %v, error %v, want none and an error that wraps ErrToken", prefix, s, err)
		}
	}
}

// TestSubjects: subjects, filters and names have their documented forms.
func TestSubjects(t *testing.T) {
	var s Space
	other := must(t, NewSpace, "team.axe")
	a, id := must(t, ParseAgent, "lead"), must(t, ParseTree, "T1")
	r := s.Run(a, id, Root.Child(2, 1))
	tests := []struct{ got, want string }{
		{s.Submit(a, id), "axe.submit.lead.T1"},
		{r.Call(), "axe.run.lead.T1.r-2-1.call"},
		{r.Log(), "axe.run.lead.T1.r-2-1.log"},
		{r.Reply(3, 0), "axe.run.lead.T1.r-2-1.in.3.0"},
		{r.Fired(3), "axe.run.lead.T1.r-2-1.in.timer.3"},
		{r.Due(3), "axe.run.lead.T1.r-2-1.due.3"},
		{r.Cancel(), "axe.run.lead.T1.r-2-1.cancel"},
		{r.Timer(3), "axe.timer.lead.T1.r-2-1.3"},
		{r.Dead(), "axe.dead.lead.T1.r-2-1"},
		{r.Progress(), "axe.live.part.lead.T1.r-2-1"},
		{r.All(), "axe.run.lead.T1.r-2-1.>"},
		{r.Replies(), "axe.run.lead.T1.r-2-1.in.>"},
		{r.String(), "lead.T1.r-2-1"},
		{s.Result(a, id), "axe.result.lead.T1"},
		{s.ResultOf(id), "axe.result.*.T1"},
		{s.TreeOf(id), "axe.run.*.T1.>"},
		{strings.Join(s.SubmissionOf(id), " "), "axe.submit.*.T1 axe.submit.*.T1.by.*.*"},
		{strings.Join(r.AnySubmit(), " "), "axe.submit.lead.T1 axe.submit.lead.T1.by.*.*"},
		{
			strings.Join(s.Interrupts(), " "),
			"axe.run.*.*.*.in.interrupt.* axe.run.*.*.*.in.interrupt.*.by.*.*",
		},
		{s.PartsOf(id), "axe.live.part.*.T1.*"},
		{
			strings.Join(s.PartsOfTree(id), " "),
			"axe.run.*.T1.> axe.timer.*.T1.> axe.tally.T1.* axe.dead.*.T1.* axe.result.*.T1",
		},
		{s.CallOf(id, Root), "axe.run.*.T1.r.call"},
		{s.Calls(a), "axe.run.lead.*.*.call"},
		{s.Cancels(), "axe.run.*.*.*.cancel"},
		{s.DeadSubmission(id), "axe.dead.submit.T1.r"},
		{s.Submissions(), "axe.submit.>"},
		{s.Runs(), "axe.run.>"},
		{s.Results(), "axe.result.>"},
		{s.Timers(), "axe.timer.>"},
		{s.TimersOf(id), "axe.timer.*.T1.>"},
		{s.DueTimers(), "axe.run.*.*.*.due.*"},
		{s.Dead(), "axe.dead.>"},
		{s.All(), "axe.>"},
		{s.LiveAll(), "axe.live.>"},
		{s.Live(r.Log()), "axe.live.run.lead.T1.r-2-1.log"},
		{s.Name("RUNS"), "AXE_RUNS"},
		{other.Name("RUNS"), "TEAM_AXE_RUNS"},
		{other.Run(a, id, Root).Call(), "team.axe.run.lead.T1.r.call"},
		{other.Live(other.Result(a, id)), "team.axe.live.result.lead.T1"},
	}
	for _, test := range tests {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	inbound := []string{
		"axe.run.lead.*.*.in.*.*", "axe.run.lead.*.*.in.*.*.by.*.*", "axe.run.lead.*.*.cancel",
		"axe.run.lead.*.*.tool",
	}
	if diff := cmp.Diff(inbound, s.Inbound(a)); diff != "" {
		t.Errorf("inbound (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"axe.run.*.*.r.in.timer.0", "axe.run.*.*.r.cancel"}, s.RootEnds()); diff != "" {
		t.Errorf("root ends (-want +got):\n%s", diff)
	}
}
