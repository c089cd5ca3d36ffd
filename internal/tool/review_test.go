package tool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// underReview returns the state of a run whose first turn, of the entry e,
// waits for its supervisor. It folds the events then after that.
func underReview(t *testing.T, e run.Entry, then ...run.Event) run.State {
	t.Helper()
	at := func(seq uint64) run.Meta { return run.Meta{Seq: seq, Time: noon.Add(time.Duration(seq) * time.Second)} }
	e.Index = 1
	e.Kind = run.EntryTurn
	e.Trigger = 1
	e.Seen = 1
	e.Start = &run.Start{Supervision: run.Supervision{Mode: run.Human, Agent: "supervisor", Timeout: time.Hour}}
	e.Timer = noon.Add(time.Minute)
	e.Review = &run.Call{Op: run.OpReview, Agent: "supervisor", Deadline: e.Timer}
	var s run.State
	events := []run.Event{
		run.Called{Meta: at(1), Input: run.Input{Task: "x"}},
		run.Answered{Meta: at(2), Entry: e},
	}
	for _, event := range append(events, then...) {
		var err error
		if s, err = s.Apply(event); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// noon is the beginning of the runs.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// verdict returns the event of the supervisor's answer to a turn with a number
// of calls.
func verdict(calls int, text string) run.Event {
	return run.Replied{
		Meta:    run.Meta{Seq: 3, Time: noon.Add(3 * time.Second)},
		Turn:    1,
		Index:   calls,
		Outcome: run.Outcome{Status: run.StatusCompleted, Result: text},
	}
}

// TestResultsOfUndecidedTurn: a run waits for its supervisor, waits for a
// person, or ended while it waited. None of the turn's calls was carried out,
// and their results say so. A call that was refused has its own error.
func TestResultsOfUndecidedTurn(t *testing.T) {
	const undecided = "Nothing of this turn was carried out: nobody has approved of it yet."
	ids := []string{"check", "wait", "wait for one", "fork", "send", "spawn", "call", "refused"}
	e := run.Entry{Answer: &provider.Response{}, Calls: []run.Call{
		{Op: run.OpMail},
		{Op: run.OpWait},
		{Op: run.OpWait, From: []subjects.Path{subjects.Root.Child(1, 9)}},
		{Op: run.OpFork, Agent: "a", To: subjects.Root.Child(1, 3)},
		{Op: run.OpSend, Agent: "a", To: subjects.Root.Child(1, 9)},
		{Agent: "a", Spawn: true},
		{Agent: "a"},
		{Error: "no such agent", Kind: run.KindUnknownAgent},
	}}
	want := make([]provider.ToolResult, len(ids))
	for i, id := range ids {
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{ID: id})
		want[i] = provider.ToolResult{CallID: id, Content: undecided, IsError: true}
	}
	want[len(want)-1].Content = "no such agent"
	for _, test := range []struct {
		phase run.Phase
		then  []run.Event
	}{
		{run.Awaiting, nil},
		{run.Held, []run.Event{verdict(len(ids), `{"decision":"pause"}`)}},
		{
			run.Failed,
			[]run.Event{run.Cancelled{Meta: run.Meta{Seq: 3}, End: run.End{Kind: run.KindCancelled, Text: "stop"}}},
		},
	} {
		s := underReview(t, e, test.then...)
		if s.Phase != test.phase {
			t.Fatalf("the run is %v, want %v", s.Phase, test.phase)
		}
		msgs := tool.Conversation(subjects.Root, "x", s.Turns)
		if diff := cmp.Diff(want, msgs[len(msgs)-1].ToolResults); diff != "" {
			t.Errorf("results in a run that is %v (-want +got):\n%s", test.phase, diff)
		}
	}
}

// TestWithheldCommands: a turn with slash commands is under review, or was
// withheld. The results of the commands are one text for the model, each below
// its command.
func TestWithheldCommands(t *testing.T) {
	e := run.Entry{
		Answer: &provider.Response{
			Content:   "/slash check-mail\n/slash kill r-1-0",
			ToolCalls: tool.Commands(&provider.Response{Content: "/slash check-mail\n/slash kill r-1-0"}, nil),
		},
		Calls: []run.Call{
			{Op: run.OpMail, Slash: true},
			{Op: run.OpKill, Agent: "a", To: subjects.Root.Child(1, 0), Slash: true},
		},
	}
	for _, test := range []struct {
		then []run.Event
		want string
	}{
		{nil, "Nothing of this turn was carried out: nobody has approved of it yet."},
		{
			[]run.Event{verdict(2, `{"decision":"reorient","correction":"kill nobody"}`)},
			"Nothing of this turn was carried out. Your supervisor says: kill nobody",
		},
	} {
		msgs := tool.Conversation(subjects.Root, "x", underReview(t, e, test.then...).Turns)
		want := provider.Message{Role: provider.User, Content: strings.Join([]string{
			"Results of your commands, in their order:\n",
			"/slash check-mail", test.want + "\n",
			"/slash kill", test.want,
		}, "\n")}
		if diff := cmp.Diff(want, msgs[len(msgs)-1]); diff != "" {
			t.Errorf("message with the results (-want +got):\n%s", diff)
		}
	}
}

// TestReviewCut: the text of a review cuts a long argument, and names it with
// its length. A refused call is left out.
func TestReviewCut(t *testing.T) {
	long := strings.Repeat("é", 40_000)
	for _, test := range []struct {
		name, task, shown, cut string
		refused                bool
	}{
		{name: "short", task: long[:60_000], shown: long[:60_000]},
		{name: "long", task: long, shown: long[:64<<10] + "…", cut: `,"cut":{"task":80000}`},
		{name: "long and refused", task: long, refused: true},
	} {
		e := run.Entry{
			Answer: &provider.Response{ToolCalls: []provider.ToolCall{
				{
					Name:      "call_agent",
					Arguments: map[string]string{"agent": "a", "task": test.task},
				}, {Name: "fork", Arguments: map[string]string{"prompt": "x"}},
			}},
			Calls: []run.Call{{Agent: "a"}, {Op: run.OpFork, Agent: "a"}},
		}
		if test.refused {
			e.Calls[0].Error = "no"
		}
		e.Cut = tool.Truncated(e)
		acts := `{"tool":"fork","arguments":{"prompt":"x"}}`
		if !test.refused {
			acts = `{"tool":"call_agent","arguments":{"agent":"a","task":"` + test.shown + `"}` + test.cut + `},` + acts
		}
		text := tool.Review(subjects.Run{}, underReview(t, e))
		if !strings.Contains(text, `"about_to":[`+acts+`]`) ||
			strings.Contains(text, "Of the arguments under cut") != (test.cut != "") ||
			e.Cut != (test.cut != "") {
			t.Errorf("%s: cut is %t, want %t, and %s among the calls of %.400s…",
				test.name, e.Cut, test.cut != "", acts[:min(200, len(acts))], text)
		}
	}
}
