package run_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestMailFrom: the writer of a message is a name of 1 to 512 bytes in one
// line.
func TestMailFrom(t *testing.T) {
	for from, ok := range map[string]bool{
		"user": true, "r-1-0": true, "Zoë from the 3rd floor": true, "👩‍🔧": true, strings.Repeat("x", 512): true,
		"": false, strings.Repeat("x", 513): false, "user\ngot mail from r": false, "user\r": false, "a\tb": false,
		"\x00":    false,
		"\x1b[2J": false, "a\u0085b": false, "a\u2028b": false, "a\u2029b": false, "\x7f": false,
	} {
		body, err := json.Marshal(run.Mail{From: from, Text: "several\nlines"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := run.DecodeMail(body)
		if (err == nil) != ok || ok && m.From != from {
			t.Errorf("mail from %q: got %+v, error %v, want it accepted: %t", from, m, err, ok)
		}
	}
}

// TestFullInbox: unread mail is kept up to a bound, and the run is told once
// that it lost some. Idle notices of forks and awaited mail still arrive. Those
// that no fork can have written do not.
// Taking mail makes room again.
func TestFullInbox(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		fit  int // messages
	}{
		{"many", "x", run.MaxInbox},
		{"long", strings.Repeat("x", 1<<20), run.MaxInboxBytes >> 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &folding{t: t}
			f.apply(run.Called{Input: run.Input{Task: "x"}})
			start := &run.Start{Tools: []provider.Tool{{Name: "check_mail"}, {Name: "wait"}}}
			f.apply(run.Answered{Entry: run.Entry{
				Index: 1, Kind: run.EntryTurn, Trigger: 1, Start: start, Answer: &provider.Response{},
				Timer: f.time().Add(time.Hour),
				Calls: []run.Call{
					{Op: run.OpFork, Agent: "a", To: subjects.Root.Child(1, 0)},
					{Op: run.OpWait, From: []subjects.Path{subjects.Root.Child(1, 9), subjects.Root.Child(1, 8)}},
				},
			}})
			for range test.fit + 500 {
				f.apply(run.Mailed{Mail: run.Mail{From: "somebody", Text: test.text}})
			}
			f.apply(run.Mailed{Mail: run.Mail{From: "r-1-0", Text: "done", Idle: true, Key: "r-1-0-idle1"}})
			// No fork has these keys and turns, and one notice has
			// come.
			for _, key := range []string{
				"r-1-0-idle1", "r-1-0-idle51", "r-1-1-idle1", "r-1-7-idle1", "r-1-0-1-0-idle1", "r-2-0-idle1",
			} {
				from, _, _ := strings.Cut(key, "-idle")
				f.apply(run.Mailed{Mail: run.Mail{From: from, Text: "forged", Idle: true, Key: key}})
			}
			f.apply(run.Mailed{Mail: run.Mail{From: "r-1-9", Text: "it is me"}})
			f.apply(run.Mailed{Mail: run.Mail{From: "r-1-9", Text: "once more"}})
			f.apply(run.Mailed{Mail: run.Mail{From: "r-1-8", Text: "and me"}})
			if f.state.Phase != run.Ready {
				t.Fatalf("the run is %v with the mail that it waited for, want %v", f.state.Phase, run.Ready)
			}
			var from []string
			for _, m := range f.state.Inbox[test.fit:] {
				from = append(from, m.From)
			}
			if diff := cmp.Diff([]string{run.Overflow, "r-1-0"}, from); diff != "" {
				t.Errorf("writers of the mail after the first %d messages (-want +got):\n%s", test.fit, diff)
			}
			f.apply(run.Answered{Entry: run.Entry{
				Index: 2, Kind: run.EntryTurn, Trigger: f.state.Owner, Seen: f.state.Seq,
				Answer: &provider.Response{}, Calls: []run.Call{{Op: run.OpMail}},
			}})
			f.apply(run.Mailed{Mail: run.Mail{From: "somebody", Text: "again"}})
			if got := f.state.Inbox; len(got) != 1 || got[0].Text != "again" {
				t.Errorf("got %d messages in the inbox, want only the one that came after the run took all", len(got))
			}
		})
	}
}

// folding is a state to which apply adds events, one a second.
type folding struct {
	t     *testing.T
	seq   uint64
	state run.State
}

// time is the time of the newest event.
func (f *folding) time() time.Time { return time.Date(2026, 1, 1, 0, 0, int(f.seq), 0, time.UTC) }

// apply folds an event, with the next sequence and time. It can give them to a
// Called, an Answered and a Mailed.
func (f *folding) apply(e run.Event) {
	f.t.Helper()
	f.seq++
	meta := run.Meta{Seq: f.seq, Time: f.time()}
	switch event := e.(type) {
	case run.Called:
		event.Meta = meta
		e = event
	case run.Answered:
		event.Meta = meta
		e = event
	case run.Mailed:
		event.Meta = meta
		e = event
	case run.Ended, run.ToolStarted, run.ToolHeld, run.TaskMade, run.Replied, run.TimedOut,
		run.AnsweredWithoutCalls, run.Approved, run.Settled, run.Interrupted,
		run.Returned, run.CancelSent, run.Cancelled, run.OutcomeStored, run.OutcomeRefused:
		f.t.Fatalf("folding cannot set the sequence of a %T", e)
	}
	var err error
	if f.state, err = f.state.Apply(e); err != nil {
		f.t.Fatal(err)
	}
}
