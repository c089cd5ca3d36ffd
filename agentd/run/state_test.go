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

// apply folds events into a state. None of them may be refused.
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

// called is the call of a run, with the sequence 1.
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

// repliedWith is the outcome of a call.
func repliedWith(seq uint64, turn, index int, o run.Outcome) run.Replied {
	return run.Replied{Meta: run.Meta{Seq: seq, Time: clock(int(seq))}, Turn: turn, Index: index, Outcome: o}
}

// TestMaxTurns: a run fails after its fiftieth turn, however that turn ends. An
// outcome or a timer that ends the turn owns the failure. A turn whose calls
// are all refused leaves it to the owner of the turn.
func TestMaxTurns(t *testing.T) {
	s := apply(t, run.State{}, called())
	seq := uint64(1)
	for i := 1; i < run.MaxTurns; i++ {
		seq++
		s = apply(t, s, turnOf(seq, 1, i, "!a"))
	}
	if s.Phase != run.Ready {
		t.Fatalf("the run is %v after %d turns, want %v", s.Phase, len(s.Turns), run.Ready)
	}
	refused := apply(t, s, turnOf(seq+1, 1, run.MaxTurns, "!a"))
	replied := apply(
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
	end := run.End{Kind: run.KindTurns, Text: "agent exceeded maximum conversation turns (50)"}
	want := []run.Effect{run.PublishFailure{End: end}}
	for name, s := range map[string]run.State{"refused": refused, "replied": replied, "timed out": timed} {
		if s.Phase != run.Failed {
			t.Errorf("%s: the run is %v, want %v", name, s.Phase, run.Failed)
		}
		if diff := cmp.Diff(want, s.Outstanding().All(), comparePaths); diff != "" {
			t.Errorf("%s: owed effects (-want +got):\n%s", name, diff)
		}
	}
	if refused.Owner != 1 || replied.Owner != seq+2 || timed.Owner != seq+2 {
		t.Errorf("owners %d (refused), %d (replied), %d (timed out), want 1 and twice %d",
			refused.Owner, replied.Owner, timed.Owner, seq+2)
	}
}

// TestOutcomesInCallOrder: a turn keeps its outcomes in the order of its calls,
// whichever comes first. A later turn does not replace them.
func TestOutcomesInCallOrder(t *testing.T) {
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
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestTotals: the totals of the turns count the run's own work. Those of the
// subtree add the subtree of each outcome.
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
			t.Errorf("with an entry that ended as %q: %d model calls, want %d", kind, got, want)
		}
	}
}

// TestTotalsOfAnotherWriter: a message that says idle is an idle notice only
// under the fork's own key. An outcome that names another run than its call's
// still ends the call. The totals of neither count.
func TestTotalsOfAnotherWriter(t *testing.T) {
	totals := run.Totals{Runs: 7} // 8 with the run itself
	forking := turnOf(2, 1, 1, "a")
	forking.Entry.Calls[0].Op, forking.Entry.Calls[0].To = run.OpFork, subjects.Root.Child(1, 0)
	for key, own := range map[string]bool{
		"r-1-0-idle1": true, "r-1-0-idle12": true,
		"": false, "x": false, "r-1-0": false, "r-1-0-1-0": false, "r-1-0-idle": false, "r-1-0-idle0": false,
		"r-1-0-idle01": false,
		"r-1-0-idle+1": false, "r-1-1-idle1": false, "r-1-0-1-0-idle1": false, "r-idle1": false,
	} {
		notice := run.Mail{Key: key, From: "r-1-0", Idle: true, Seen: 9, Subtree: &totals}
		s := apply(t, run.State{}, called(), forking, run.Mailed{Meta: run.Meta{Seq: 4, Time: clock(4)}, Mail: notice})
		if got := s.Subtree().Runs == 8; got != own || s.Inbox[0].Idle != own {
			t.Errorf("mail under %q is a notice: %t, its totals count: %t, want %t for both",
				key, s.Inbox[0].Idle, got, own)
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
			repliedWith(3, 1, 0, run.Outcome{Status: run.StatusCompleted, Path: path, Subtree: totals}),
		)
		if got := s.Subtree().Runs == 8; got != own || s.Phase != run.Ready {
			t.Errorf("the totals of an outcome of %q count: %t, want %t; the run is %v, want %v",
				path, got, own, s.Phase, run.Ready)
		}
	}
}

// TestTotalsOfManyForks: the totals of many forks are summed without a copy of
// the mail for each of them. The last idle notice of each counts.
func TestTotalsOfManyForks(t *testing.T) {
	const forks = 200
	agents := make([]string, forks)
	for i := range agents {
		agents[i] = "a"
	}
	forking := turnOf(2, 1, 1, agents...)
	s := run.State{}
	events := []run.Event{called(), forking}
	for i := range agents {
		path := subjects.Root.Child(1, i)
		forking.Entry.Calls[i].Op, forking.Entry.Calls[i].To = run.OpFork, path
		for n, runs := range []int{5, 2} {
			seq := uint64(3 + 2*i + n)
			events = append(events, run.Mailed{Meta: run.Meta{Seq: seq, Time: clock(4)}, Mail: run.Mail{
				Key: fmt.Sprintf("%s-idle%d", path, n+1), From: path.String(), Idle: true, Seen: 9,
				Subtree: &run.Totals{Runs: runs},
			}})
		}
	}
	s = apply(t, s, events...)
	if got, want := s.Subtree().Runs, 1+2*forks; got != want {
		t.Errorf("%d runs, want %d", got, want)
	}
	if allocs := testing.AllocsPerRun(1, func() { s.Subtree() }); allocs > forks/2 {
		t.Errorf("%.0f allocations for %d forks, want fewer than one for two forks", allocs, forks)
	}
}

// TestStart: the first turn on the log has the settings of the run.
func TestStart(t *testing.T) {
	s := apply(t, run.State{}, called())
	if s.Start() != nil {
		t.Errorf("got the start %+v before the first turn, want none", s.Start())
	}
	first, second := turnOf(2, 1, 1, "!a"), turnOf(3, 1, 2, "!a")
	first.Entry.Start = &run.Start{Model: "first"}
	second.Entry.Start = &run.Start{Model: "second"}
	if got := apply(t, s, first, second).Start(); got.Model != "first" {
		t.Errorf("got the start with the model %q, want the one of the first turn", got.Model)
	}
}

// TestHoleIsCorrupt: Apply refuses a log entry that leaves a hole, with
// ErrCorrupt and the state as it was.
func TestHoleIsCorrupt(t *testing.T) {
	s := apply(t, run.State{}, called())
	after, err := s.Apply(turnOf(2, 1, 2, "a"))
	if !errors.Is(err, run.ErrCorrupt) {
		t.Errorf("error %v, want %v", err, run.ErrCorrupt)
	}
	if diff := cmp.Diff(s, after, unexported); diff != "" {
		t.Errorf("the state has changed (-before +after):\n%s", diff)
	}
}

func TestPhaseString(t *testing.T) {
	got := fmt.Sprint(run.None, run.Ready, run.Awaiting, run.Idle, run.Held, run.Completed, run.Failed)
	if want := "none ready awaiting idle held completed failed"; got != want {
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
				t.Fatalf("turn %d of the %s branch calls %s, want %s", i, want, got, want)
			}
		}
		s = left
	}
}

// TestPartial: Partial has the last text of a run, its completed results and
// its calls without an outcome. It is nil for a run without any.
func TestPartial(t *testing.T) {
	ok := func(result string) run.Outcome {
		return run.Outcome{Status: run.StatusCompleted, Agent: "a", Result: result}
	}
	s := apply(t, run.State{}, called())
	if s.Partial() != nil {
		t.Errorf("a run without a turn has the partial %+v, want none", s.Partial())
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
		t.Errorf("the partial (-want +got):\n%s", diff)
	}
}

// TestScheduleChangesNoSharedCalls: Schedule and Defer set the deadlines of
// copies. The entry may share its calls with a state.
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
			t.Errorf("call %d of the entry got the deadline %v, want none", i, c.Deadline)
		}
	}
}
