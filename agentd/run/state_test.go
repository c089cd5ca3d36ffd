package run_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

func apply(t *testing.T, s run.State, events ...run.Event) run.State {
	t.Helper()
	for _, e := range events {
		var err error
		if s, err = s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func called() run.Called {
	return run.Called{Meta: run.Meta{Seq: 1, Time: clock(1)}}
}

// turnOf makes a turn with one call for each agent. A call of a name that
// begins with ! is refused.
func turnOf(seq, trigger uint64, index int, agents ...string) run.Answered {
	e := run.Entry{
		Index:   index,
		Kind:    run.EntryTurn,
		Trigger: trigger,
		Timer:   clock(1000),
		Answer: &provider.Response{
			Usage: provider.Usage{InputTokens: 10, OutputTokens: 1},
		},
	}
	for _, a := range agents {
		c := run.Call{Agent: a, Deadline: e.Timer}
		if a[0] == '!' {
			c = run.Call{Agent: a[1:], Error: "no such agent", Kind: run.KindUnknownAgent}
		}
		e.Calls = append(e.Calls, c)
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{ID: a})
	}
	return run.Answered{Meta: run.Meta{Seq: seq, Time: clock(int(seq))}, Entry: e}
}

func repliedWith(seq uint64, turn, index int, o run.Outcome) run.Replied {
	return run.Replied{Meta: run.Meta{Seq: seq, Time: clock(int(seq))}, Turn: turn, Index: index, Outcome: o}
}

// TestMaxTurns: a run does not owe a turn after the fiftieth, whatever its
// owner.
func TestMaxTurns(t *testing.T) {
	s := apply(t, run.State{}, called())
	seq := uint64(1)
	for i := 1; i < run.MaxTurns; i++ {
		seq++
		s = apply(t, s, turnOf(seq, 1, i, "!a"))
	}
	if s.Phase != run.Ready {
		t.Fatalf("%v after %d turns", s.Phase, len(s.Turns))
	}
	refused := apply(t, s, turnOf(seq+1, 1, run.MaxTurns, "!a"))
	waited := apply(
		t,
		s,
		turnOf(seq+1, 1, run.MaxTurns, "a"),
		repliedWith(seq+2, run.MaxTurns, 0, run.Outcome{Status: run.StatusCompleted}),
	)
	timed := apply(
		t,
		s,
		turnOf(seq+1, 1, run.MaxTurns, "a"),
		run.TimedOut{Meta: run.Meta{Seq: seq + 2}, Turn: run.MaxTurns},
	)
	for name, s := range map[string]run.State{"refused": refused, "replied": waited, "timed out": timed} {
		end := run.End{Kind: run.KindTurns, Text: "agent exceeded maximum conversation turns (50)"}
		if diff := cmp.Diff([]run.Effect{run.PublishFailure{End: end}}, s.Outstanding().All(),
			comparePaths); s.Phase != run.Failed ||
			diff != "" {
			t.Errorf("%s: %v owes (-want +got):\n%s", name, s.Phase, diff)
		}
	}
	if refused.Owner != 1 || waited.Owner != seq+2 || timed.Owner != seq+2 {
		t.Errorf("owners %d, %d, %d", refused.Owner, waited.Owner, timed.Owner)
	}
}

// TestTwoCallsInOneTurnKeepBoth: a later set of calls never replaces the
// results of an earlier one.
func TestTwoCallsInOneTurnKeepBoth(t *testing.T) {
	ok := func(result string) run.Outcome { return run.Outcome{Status: run.StatusCompleted, Result: result} }
	s := apply(
		t,
		run.State{},
		called(),
		turnOf(2, 1, 1, "a", "a"),
		repliedWith(4, 1, 1, ok("second")),
		repliedWith(5, 1, 0, ok("first")),
		turnOf(6, 5, 2, "a", "!b", "a"),
		repliedWith(7, 2, 2, ok("fourth")),
		repliedWith(8, 2, 0, ok("third")),
	)
	var got []string
	for _, turn := range s.Turns {
		for _, o := range turn.Outcomes {
			got = append(got, o.Result+o.Error)
		}
	}
	if diff := cmp.Diff([]string{"first", "second", "third", "no such agent", "fourth"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTotals(t *testing.T) {
	s := apply(t, run.State{}, called(), turnOf(2, 1, 1, "a", "!b", "c"),
		repliedWith(3, 1, 0, run.Outcome{Status: run.StatusCompleted, Path: "r-1-0", Subtree: run.Totals{
			Usage: provider.Usage{
				InputTokens:  100,
				OutputTokens: 7,
				CachedTokens: 3,
			}, Runs: 2, ModelCalls: 3, ToolCalls: 1,
		}}),
		run.TimedOut{Meta: run.Meta{Seq: 4}, Turn: 1}, turnOf(5, 4, 2, "a"))
	if got, want := s.Turns.Totals().Usage, (provider.Usage{InputTokens: 20, OutputTokens: 2}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if got := s.Turns.Totals().ToolCalls; got != 4 {
		t.Errorf("%d tool calls, want 4", got)
	}
	want := run.Totals{
		Usage:      provider.Usage{InputTokens: 120, OutputTokens: 9, CachedTokens: 3},
		Runs:       3,
		ModelCalls: 5,
		ToolCalls:  5,
	}
	if diff := cmp.Diff(want, s.Subtree()); diff != "" {
		t.Errorf("subtree (-want +got):\n%s", diff)
	}
}

// TestModelCalls: a failed request counts as a model call. An entry that
// records an interrupt or a bound does not.
func TestModelCalls(t *testing.T) {
	for kind, want := range map[run.Kind]int{"": 2, run.KindError: 2, run.KindCancelled: 1, run.KindBudget: 1} {
		e := run.Entry{Index: 2, Kind: run.EntryIdle, Trigger: 1, Answer: &provider.Response{}}
		if kind != "" {
			e.End = &run.End{Kind: kind}
		}
		s := apply(
			t,
			run.State{},
			called(),
			turnOf(2, 1, 1, "!a"),
			run.AnsweredWithoutCalls{Meta: run.Meta{Seq: 3}, Entry: e},
		)
		if got := s.Subtree().ModelCalls; got != want {
			t.Errorf("after an end %q there were %d model calls, want %d", kind, got, want)
		}
	}
}

// TestSpeaksForAnother: an outcome or notice that is not stored where its run
// writes does not count as that run's, and its totals do not count at all.
func TestSpeaksForAnother(t *testing.T) {
	took := run.Totals{Runs: 7}
	forking := turnOf(2, 1, 1, "a")
	forking.Entry.Calls[0].Op, forking.Entry.Calls[0].To = run.OpFork, subjects.Root.Child(1, 0)
	for key, own := range map[string]bool{
		"r-1-0-idle1": true, "r-1-0-idle12": true,
		"": false, "x": false, "r-1-0": false, "r-1-0-1-0": false, "r-1-0-idle": false, "r-1-0-idle0": false,
		"r-1-0-idle01": false,
		"r-1-0-idle+1": false, "r-1-1-idle1": false, "r-1-0-1-0-idle1": false, "r-idle1": false,
	} {
		word := run.Mail{Key: key, From: "r-1-0", Idle: true, Seen: 9, Subtree: &took}
		s := apply(t, run.State{}, called(), forking, run.Mailed{Meta: run.Meta{Seq: 4, Time: clock(4)}, Mail: word})
		if got := s.Subtree().Runs == 8; got != own || s.Inbox[0].Idle != own {
			t.Errorf("a word under %q: it is one, %v, and counts, %v; want %v", key, s.Inbox[0].Idle, got, own)
		}
	}
	for path, own := range map[string]bool{
		"r-1-0": true, "": false, "r": false, "r-1-1": false, "r-2-0": false,
		"r-11-0": false,
	} {
		s := apply(
			t,
			run.State{},
			called(),
			turnOf(2, 1, 1, "a"),
			repliedWith(3, 1, 0, run.Outcome{Status: run.StatusCompleted, Path: path, Subtree: took}),
		)
		if got := s.Subtree().Runs == 8; got != own || s.Phase != run.Ready {
			t.Errorf("an outcome of %q counts: %v, want %v, and it is %v", path, got, own, s.Phase)
		}
	}
}

func TestStart(t *testing.T) {
	s := apply(t, run.State{}, called())
	if s.Start() != nil {
		t.Errorf("started with %+v before the first turn", s.Start())
	}
	first, second := turnOf(2, 1, 1, "!a"), turnOf(3, 1, 2, "!a")
	first.Entry.Start = &run.Start{Model: "first"}
	second.Entry.Start = &run.Start{Model: "second"}
	if got := apply(t, s, first, second).Start(); got.Model != "first" {
		t.Errorf("started with %q", got.Model)
	}
}

// TestCorruptIsOneError: every fault of a history is ErrCorrupt.
func TestCorruptIsOneError(t *testing.T) {
	s := apply(t, run.State{}, called())
	after, err := s.Apply(turnOf(2, 1, 2, "a"))
	if !errors.Is(err, run.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(s, after, unexported); diff != "" {
		t.Errorf("the state has changed:\n%s", diff)
	}
}

func TestPhaseString(t *testing.T) {
	got := fmt.Sprint(run.None, run.Ready, run.Awaiting, run.Completed, run.Failed)
	if want := "none ready awaiting completed failed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBranches: two events applied to the same state give two independent
// states.
func TestBranches(t *testing.T) {
	s := apply(t, run.State{}, called())
	for i := 1; i < 20; i++ {
		seq := uint64(2 * i)
		left := apply(t, s, turnOf(seq, 1, i, "!left"))
		right := apply(t, s, turnOf(seq, 1, i, "!right"))
		for want, s := range map[string]run.State{"left": left, "right": right} {
			if got := s.Turns[i-1].Entry.Calls[0].Agent; got != want {
				t.Fatalf("turn %d of the %s branch calls %s", i, want, got)
			}
		}
		s = left
	}
}

// TestPartial: a failed run keeps its completed results and its last text, and
// has no Partial without any.
func TestPartial(t *testing.T) {
	ok := func(result string) run.Outcome {
		return run.Outcome{Status: run.StatusCompleted, Agent: "a", Result: result}
	}
	s := apply(t, run.State{}, called())
	if s.Partial() != nil {
		t.Errorf("a run without a turn has %+v", s.Partial())
	}
	first, second := turnOf(2, 1, 1, "a", "!b"), turnOf(4, 3, 2, "a", "a", "a")
	first.Entry.Answer.Content, second.Entry.Answer.Content = "I shall ask", ""
	s = apply(t, s, first, repliedWith(3, 1, 0, ok("one")), second, repliedWith(5, 2, 2, ok("three")),
		repliedWith(6, 2, 0, run.Failure(run.KindError, "broken")))
	want := &run.Partial{
		Text: "I shall ask", Results: []run.PartialResult{{1, 0, "a", "one"}, {2, 2, "a", "three"}},
		Waiting: []run.PartialCall{{2, 1, "a"}},
	}
	if diff := cmp.Diff(want, s.Partial()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestScheduleChangesNoSharedCalls: an entry that shares its calls with a state
// leaves them as they are.
func TestScheduleChangesNoSharedCalls(t *testing.T) {
	e := run.Entry{Calls: []run.Call{{Agent: "a"}, {Op: run.OpFork, Agent: "a"}}, Timeout: time.Second}
	limit := clock(60)
	calls, last := e.Schedule(clock(1), func(int) time.Time { return limit })
	if want := clock(2); !calls[0].Deadline.Equal(want) || !last.Equal(want) || !calls[1].Deadline.Equal(limit) {
		t.Errorf(
			"deadlines %v and %v, last %v, want %v and %v",
			calls[0].Deadline,
			calls[1].Deadline,
			last,
			want,
			limit,
		)
	}
	deferred := e.Defer(limit)
	if !deferred[0].Deadline.Equal(limit) || !deferred[1].Deadline.Equal(limit) {
		t.Errorf("deferred to %v and %v, want %v", deferred[0].Deadline, deferred[1].Deadline, limit)
	}
	for i, c := range e.Calls {
		if !c.Deadline.IsZero() {
			t.Errorf("call %d of the entry got the deadline %v", i, c.Deadline)
		}
	}
}
