package mcpserver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// event returns an event of a run of the agent a in the tree T1. Change may be
// nil.
func event(t *testing.T, kind client.EventKind, path string, change func(*client.Event)) client.Event {
	t.Helper()
	agent, err := subjects.ParseAgent("a")
	if err != nil {
		t.Fatal(err)
	}
	p, err := subjects.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	e := client.Event{Kind: kind, Run: subjects.Space{}.Run(agent, client.TreeID("T1"), p)}
	if change != nil {
		change(&e)
	}
	return e
}

// TestReportsAreRare: there are at most two reports a second, though the state
// changes 20 times a second. The last change is reported too.
func TestReportsAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(client.TreeID("T1"))
		var reports []report
		var times []time.Time
		stop := p.report(t.Context(), func(_ context.Context, r report) {
			reports = append(reports, r)
			times = append(times, time.Now())
		})
		for turn := range 40 {
			p.see(event(t, client.Asking, "r", func(e *client.Event) { e.Turn = turn }))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		stop()
		if len(reports) != 5 {
			t.Errorf("%d reports in two seconds of changes, want 5", len(reports))
		}
		for i := 1; i < len(reports); i++ {
			if d := times[i].Sub(times[i-1]); d < reportInterval {
				t.Errorf("report %d came after %s, want at least %s", i, d, reportInterval)
			}
			if reports[i].value <= reports[i-1].value || reports[i].value >= 1 {
				t.Errorf("value %v after %v, want more, below 1: no run is done", reports[i].value, reports[i-1].value)
			}
		}
		const want = "a r: turn 39, 0 of 1 runs done"
		if got := reports[len(reports)-1].message; got != want {
			t.Errorf("last message %q, want %q", got, want)
		}
	})
}

// TestMessages: the message of a report after each of several events. The value
// grows with each report, up to the number of runs.
func TestMessages(t *testing.T) {
	p := newProgress(client.TreeID("T1"))
	because := func(reason string) func(*client.Event) {
		return func(e *client.Event) { e.Reason = reason }
	}
	tool := func(form *run.Form) func(*client.Event) {
		return func(e *client.Event) {
			e.Entry = run.Entry{Kind: run.EntryHeld, Form: form}
			e.Reason = "why?"
		}
	}
	completed := func(e *client.Event) { e.Outcome.Status = run.StatusCompleted }
	last := -1.0
	for _, step := range []struct {
		kind   client.EventKind
		path   string
		change func(*client.Event)
		want   string
	}{
		{client.Called, "r", nil, "a r: called, 0 of 1 runs done"},
		{client.Asking, "r", func(e *client.Event) { e.Turn = 1 }, "a r: turn 1, 0 of 1 runs done"},
		{client.Held, "r", because("why?"), "held: approve with axe approve T1 (why?), 0 of 1"},
		{client.Stalled, "r", because("no worker"), "held: approve with axe approve T1"},
		{client.Approved, "r", func(e *client.Event) { e.Turn = 1 }, "a r: turn 1 was approved, 0 of 1"},
		{client.Called, "r-1-0", nil, "a r-1-0: called, 0 of 2"},
		{client.Held, "r-1-0", nil, "held: approve with axe approve T1 r-1-0, 0 of 2"},
		{client.TimedOut, "r-1-0", nil, "a r-1-0: called, 0 of 2"},
		{client.Held, "r-1-0", tool(nil), "held: settle with axe settle T1 r-1-0 (why?), 0 of 2"},
		{client.Settled, "r-1-0", nil, "a r-1-0: settled, 0 of 2"},
		{client.Held, "r-1-0", tool(&run.Form{}), "held: answer with axe answer T1 r-1-0 (why?), 0 of 2"},
		{client.Settled, "r-1-0", nil, "a r-1-0: settled, 0 of 2"},
		{client.Running, "r-1-1", nil, "a r-1-1: at work, 0 of 3"},
		{client.RateLimited, "r-1-0", func(e *client.Event) {
			e.Turn = 2
			e.Progress.Reason = "budget"
		}, "a r-1-0: turn 2 waits (budget)"},
		{client.Retrying, "r-1-0", func(e *client.Event) {
			e.Turn = 2
			e.Progress = run.Progress{Attempt: 2, Attempts: 3, Reason: "server"}
		}, "a r-1-0: turn 2, request 2 of 3 after an error (server)"},
		{client.ChildEnded, "r-1-0", completed, "a r-1-0: done, 1 of 3"},
		{client.ChildEnded, "r-1-0", nil, "1 of 3"},
		{client.ChildEnded, "r-1-1", nil, "a r-1-1: failed, 2 of 3"},
		{client.MailReceived, "r", nil, "a r-1-1: failed, 2 of 3"},
		{client.TreeEnded, "r", completed, "a r: done, 3 of 3"},
	} {
		p.see(event(t, step.kind, step.path, step.change))
		r := p.next()
		if !strings.Contains(r.message, step.want) {
			t.Errorf("%s of %s: message %q, want %q", step.kind, step.path, r.message, step.want)
		}
		if r.value <= last || r.value > r.total {
			t.Errorf("%s of %s: value %v after %v, want more, up to %v", step.kind, step.path, r.value, last, r.total)
		}
		last = r.value
	}
}

// TestFirstOfTheHeld: of several runs that wait for a person, the message names
// the first one in the order of the calls.
func TestFirstOfTheHeld(t *testing.T) {
	p := newProgress(client.TreeID("T1"))
	for _, path := range []string{"r-10-0", "r-2-0"} {
		p.see(event(t, client.Held, path, nil))
	}
	const want = "held: approve with axe approve T1 r-2-0, 0 of 2 runs done"
	if got := p.next().message; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}
