package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// folded returns the state of a run after events that are a second apart.
func folded(t *testing.T, events ...func(run.Meta) run.Event) run.State {
	t.Helper()
	var s run.State
	for i, e := range events {
		var err error
		if s, err = s.Apply(e(run.Meta{Seq: uint64(i + 1), Time: time.Unix(int64(i), 0)})); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func called(m run.Meta) run.Event { return run.Called{Meta: m} }

// turn makes the first turn of a run. Its answer has a tool call for each call.
func turn(e run.Entry, calls ...run.Call) func(run.Meta) run.Event {
	e.Index = 1
	e.Kind = run.EntryTurn
	e.Trigger = 1
	e.Calls = calls
	e.Start = &run.Start{}
	e.Answer = &provider.Response{}
	for range calls {
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{Name: "tool"})
	}
	return func(m run.Meta) run.Event { return run.Answered{Meta: m, Entry: e} }
}

// replied makes the outcome of a call of the first turn.
func replied(index int, o run.Outcome) func(run.Meta) run.Event {
	return func(m run.Meta) run.Event { return run.Replied{Meta: m, Turn: 1, Index: index, Outcome: o} }
}

// TestDetails: a call that was never published has no path. Its output is the
// text that the model read. An output of more than maxOutput bytes is cut.
func TestDetails(t *testing.T) {
	const withheld = "Nothing of this turn was carried out. Your supervisor says: no"
	verdict := run.Outcome{Status: run.StatusCompleted, Result: `{"decision":"reorient","correction":"no"}`}
	answer := run.Outcome{Status: run.StatusCompleted, Result: "ok", Path: "r-1-0"}
	long := run.Outcome{Status: run.StatusCompleted, Result: strings.Repeat("x", maxOutput+1), Path: "r-1-0"}
	timedOut := func(agent string) string {
		return fmt.Sprintf("Error: sub-agent %q failed - timeout after 1s. "+
			"You may retry or proceed without this result.", agent)
	}
	timer := func(m run.Meta) run.Event { return run.TimedOut{Meta: m, Turn: 1} }
	for _, test := range []struct {
		name   string
		events []func(run.Meta) run.Event
		want   []detail
	}{
		{
			// The index of a review is the number of calls.
			"withheld",
			[]func(run.Meta) run.Event{called, turn(run.Entry{Review: &run.Call{Op: run.OpReview}},
				run.Call{Agent: "a"}, run.Call{Op: run.OpFork, To: subjects.Root.Child(1, 1)}, run.Call{Op: run.OpMail},
				run.Call{Error: "refused"}), replied(4, verdict)},
			[]detail{
				{Output: withheld, IsError: true},
				{Output: withheld, IsError: true},
				{Output: withheld, IsError: true},
				{Output: "refused", IsError: true},
			},
		},
		{
			"sequential calls that time out",
			[]func(run.Meta) run.Event{called, turn(run.Entry{Sequential: true, Timeout: time.Second},
				run.Call{Agent: "a"}, run.Call{Agent: "b"}, run.Call{Agent: "c"}), replied(0, answer), timer},
			[]detail{
				{Output: "ok", Path: "r-1-0"},
				{Output: timedOut("b"), IsError: true, Path: "r-1-1"},
				{Output: timedOut("c"), IsError: true},
			},
		},
		{
			"a long output",
			[]func(run.Meta) run.Event{called, turn(run.Entry{}, run.Call{Agent: "a"}), replied(0, long)},
			[]detail{{Output: strings.Repeat("x", maxOutput), Truncated: true, Path: "r-1-0"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := details(folded(t, test.events...).Turns)
			for i := range got {
				got[i].Name = ""
				got[i].Input = nil
				got[i].DurationMS = 0
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}
