package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// comparePaths lets cmp compare paths.
var comparePaths = cmpopts.EquateComparable(subjects.Path{})

func TestDecodeEntryRefuses(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"nothing", ``, "unexpected end"},
		{"no object", `[]`, "cannot unmarshal"},
		{"no index", `{"kind":"ended","end":{}}`, "index must be at least 1, got 0"},
		{"negative index", `{"index":-1,"kind":"ended","end":{}}`, "index must be at least 1, got -1"},
		{"no kind", `{"index":2}`, `kind "" is not known`},
		{"a later kind", `{"index":2,"kind":"held"}`, `kind "held" is not known`},
		{"a turn without an answer", `{"index":2,"kind":"turn","calls":[{}]}`, "one decision for each of its calls"},
		{
			"a call to a malformed path",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{}]},"calls":[{"op":"send","to":"r-1"}]}`,
			`path "r-1": malformed`,
		},
		{
			"a turn without calls",
			`{"index":2,"kind":"turn","answer":{"content":"x"}}`,
			"one decision for each of its calls",
		},
		{
			"more calls than decisions",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{},{}]},"calls":[{}]}`,
			"one decision for each of its calls",
		},
		{
			"more decisions than calls",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{}]},"calls":[{},{}]}`,
			"one decision for each of its calls",
		},
		{
			"a spread for fewer tool calls",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{},{}]},"calls":[{},{}],"spread":[2]}`,
			"one decision for each of its calls",
		},
		{
			"a spread over more decisions",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{},{}]},"calls":[{},{}],"spread":[1,2]}`,
			"one decision for each of its calls",
		},
		{
			"a spread with nothing in it",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{},{}]},"calls":[{},{}],"spread":[2,0]}`,
			"one decision for each of its calls",
		},
		{"an end without a reason", `{"index":2,"kind":"ended"}`, "needs its reason"},
		{"an end that calls", `{"index":2,"kind":"ended","end":{},"calls":[{}]}`, "has no calls"},
		{
			"a first turn without its start",
			`{"index":1,"kind":"turn","answer":{"tool_calls":[{}]},"calls":[{}]}`,
			"the start is missing",
		},
		{"a trigger that is none", `{"index":2,"kind":"ended","end":{},"trigger":-1}`, "cannot unmarshal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := run.DecodeEntry([]byte(test.body))
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasPrefix(err.Error(), "log entry") {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if diff := cmp.Diff(run.Entry{}, e, comparePaths); diff != "" {
				t.Errorf("an entry besides the error:\n%s", diff)
			}
		})
	}
}

// TestDecodeEntryRestoresTheTask: task and context are on the log once, in the
// model's own words.
func TestDecodeEntryRestoresTheTask(t *testing.T) {
	e := run.Entry{
		Index: 2, Kind: run.EntryTurn,
		Answer: &provider.Response{ToolCalls: []provider.ToolCall{
			provider.NewToolCall("1", "call_agent", []byte(`{ "agent":"a", "task":"do it", "context":"soon" }`)),
			provider.NewToolCall("2", "call_agent", []byte(`{"agent":"b"}`)),
		}},
		Calls: []run.Call{{Agent: "a"}, {Agent: "b", Error: "no task", Kind: run.KindError}},
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(body), "do it"); n != 1 {
		t.Errorf("the task is there %d times: %s", n, body)
	}
	back, err := run.DecodeEntry(body)
	if err != nil {
		t.Fatal(err)
	}
	e.Calls[0].Task, e.Calls[0].Context = "do it", "soon"
	if diff := cmp.Diff(e, back, comparePaths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDecodeEntryRestoresTasks: the tasks of a call that spawns several runs
// are on the log once, in the model's own words.
func TestDecodeEntryRestoresTasks(t *testing.T) {
	e := run.Entry{
		Index: 2, Kind: run.EntryTurn,
		Answer: &provider.Response{ToolCalls: []provider.ToolCall{
			provider.NewToolCall("1", "call_agent", []byte(`{"agent":"a","task":"first","tasks":"not meant"}`)),
			provider.NewToolCall(
				"2",
				"spawn_agents",
				[]byte(`{"tasks":[{"task":"x","cwd":"sub"},{"task":"y","agent":"b","context":"c"}]}`),
			),
			provider.NewToolCall("3", "spawn_agent", []byte(`{"task":"z"}`)),
		}},
		Calls: []run.Call{
			{Agent: "a"},
			{Agent: "me", Spawn: true, AdHoc: true},
			{Agent: "b", Spawn: true},
			{Agent: "me", Spawn: true, AdHoc: true},
		},
		Spread: []int{1, 2, 1},
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := run.DecodeEntry(body)
	if err != nil {
		t.Fatal(err)
	}
	e.Calls[0].Task, e.Calls[3].Task = "first", "z"
	e.Calls[1].Task, e.Calls[1].Cwd = "x", "sub"
	e.Calls[2].Task, e.Calls[2].Context = "y", "c"
	if diff := cmp.Diff(e, back, comparePaths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if back.ToolCalls() != 3 || len(back.CallsOf(1)) != 2 || back.CallsOf(2)[0].Task != "z" {
		t.Errorf("%d tool calls, %v, %v", back.ToolCalls(), back.CallsOf(1), back.CallsOf(2))
	}
}

func TestDecodeOutcomeRefuses(t *testing.T) {
	tests := []struct{ body, want string }{
		{``, "unexpected end"},
		{`null`, `status "" is not known`},
		{`{}`, `status "" is not known`},
		{`{"status":"Completed"}`, `status "Completed" is not known`},
		{`{"status":"completed","turns":"x"}`, "cannot unmarshal"},
		{`"completed"`, "cannot unmarshal"},
	}
	for _, test := range tests {
		o, err := run.DecodeOutcome([]byte(test.body))
		if err == nil || !strings.Contains(err.Error(), test.want) || o != (run.Outcome{}) {
			t.Errorf("%s: %+v, error %v, want one with %q", test.body, o, err, test.want)
		}
	}
}

// TestDecode: each kind of message is one event, and a malformed body is the
// same event for every reader.
func TestDecode(t *testing.T) {
	m := run.Meta{Seq: 7, Time: time.Unix(1, 0).UTC()}
	key := subjects.Root.MailKey(2, 1)
	tests := []struct {
		name string
		at   subjects.Address
		body string
		want run.Event
	}{
		{
			"call",
			subjects.Address{Kind: subjects.Call},
			`{"task":"x"}`,
			run.Called{Meta: m, Input: run.Input{Task: "x"}},
		},
		{
			"outcome of a child",
			subjects.Address{Kind: subjects.Reply, Turn: 2, Index: 1},
			`{"status":"completed","result":"y"}`,
			run.Replied{Meta: m, Turn: 2, Index: 1, Outcome: run.Outcome{Status: run.StatusCompleted, Result: "y"}},
		},
		{
			"malformed outcome",
			subjects.Address{Kind: subjects.Reply, Turn: 2, Index: 1},
			`{"status":"x"}`,
			run.Replied{
				Meta:    m,
				Turn:    2,
				Index:   1,
				Outcome: run.Failure(run.KindError, `malformed outcome: status "x" is not known`),
			},
		},
		{
			"result",
			subjects.Address{Kind: subjects.Result},
			`{"status":"completed"}`,
			run.OutcomeStored{Meta: m, Outcome: run.Outcome{Status: run.StatusCompleted}},
		},
		{
			"malformed result",
			subjects.Address{Kind: subjects.Result},
			"",
			run.OutcomeStored{
				Meta:    m,
				Outcome: run.Failure(run.KindError, "malformed outcome: unexpected end of JSON input"),
			},
		},
		{
			"mail",
			subjects.Address{Kind: subjects.Mail, Key: key},
			`{"from":"r","text":"x"}`,
			run.Mailed{Meta: m, Mail: run.Mail{Seq: 7, Key: "r-2-1", From: "r", Text: "x"}},
		},
		{"malformed mail", subjects.Address{Kind: subjects.Mail, Key: key}, `{"text":"x"}`, nil},
		{
			"approval",
			subjects.Address{Kind: subjects.Approve},
			`{"approve":true}`,
			run.Approved{Meta: m, Approval: run.Approval{Approve: true}},
		},
		{"malformed approval", subjects.Address{Kind: subjects.Approve}, `yes`, nil},
		{"interrupt", subjects.Address{Kind: subjects.Interrupt}, "", run.Interrupted{Meta: m}},
		{
			"return",
			subjects.Address{Kind: subjects.Returned, Key: subjects.ReturnKey(5, 21)},
			`{"cause":"drained","turn":2,"asked_ms":4000,"attempt":2,"worker":"one"}`,
			run.Returned{Meta: m, Trigger: 5, Delivery: 21, Return: run.Return{
				Cause: run.ReturnDrained, Turn: 2, AskedMS: 4000, Attempt: 2, Worker: "one",
			}},
		},
		{"return without a delivery", subjects.Address{Kind: subjects.Returned, Key: key}, `{"cause":"drained"}`, nil},
		{
			"return without a cause",
			subjects.Address{Kind: subjects.Returned, Key: subjects.ReturnKey(5, 21)},
			`{"worker":"one"}`,
			nil,
		},
		{"timer", subjects.Address{Kind: subjects.Timer, Turn: 3}, "", run.TimedOut{Meta: m, Turn: 3}},
		{"timer that no worker has checked", subjects.Address{Kind: subjects.Due, Turn: 3}, "{}", nil},
		{
			"cancel message",
			subjects.Address{Kind: subjects.Cancel},
			`{"kind":"budget","text":"x"}`,
			run.Cancelled{Meta: m, End: run.End{Kind: run.KindBudget, Text: "x"}},
		},
		{
			"cancel message without a reason",
			subjects.Address{Kind: subjects.Cancel},
			"",
			run.Cancelled{Meta: m, End: run.End{Kind: run.KindCancelled, Text: "cancelled"}},
		},
		{
			"cancel message with a kind of another end",
			subjects.Address{Kind: subjects.Cancel},
			`{"kind":"turns","text":"x"}`,
			run.Cancelled{Meta: m, End: run.End{Kind: run.KindCancelled, Text: "x"}},
		},
		{"unknown kind", subjects.Address{Kind: subjects.Other}, "x", nil},
		{"submission", subjects.Address{Kind: subjects.Submission}, "x", nil},
		{"progress", subjects.Address{Kind: subjects.Progress}, "x", nil},
	}
	why := cmp.Options{
		cmpopts.IgnoreFields(run.Replied{}, "Malformed"),
		cmpopts.IgnoreFields(run.OutcomeStored{}, "Malformed"),
	}
	for _, test := range tests {
		got, err := run.Decode(test.at, m, []byte(test.body))
		if diff := cmp.Diff(test.want, got, comparePaths, why); diff != "" || err != nil {
			t.Errorf("%s: error %v, (-want +got):\n%s", test.name, err, diff)
		}
	}
	got, err := run.Decode(subjects.Address{Kind: subjects.Log}, m, []byte(`{"index":0}`))
	if got != nil || !errors.Is(err, run.ErrCorrupt) {
		t.Errorf("a malformed log entry: %v, error %v, want %v", got, err, run.ErrCorrupt)
	}
	got, err = run.Decode(subjects.Address{Kind: subjects.Call}, m, []byte(`{"task":"x","context":1}`))
	if e, ok := got.(run.Called); !ok || err != nil || e.Malformed == nil || e.Task != "x" {
		t.Errorf("a malformed call: %+v, error %v, want the task and why it is malformed", got, err)
	}
	got, err = run.Decode(subjects.Address{Kind: subjects.Reply}, m, []byte(`{"status":"fine"}`))
	if e, ok := got.(run.Replied); !ok || err != nil || e.Malformed == nil {
		t.Errorf("a malformed outcome: %+v, error %v, want why it is malformed", got, err)
	}
}

// bodies adds the messages of testdata/logs as seeds.
func bodies(f *testing.F, subject string) {
	f.Helper()
	files, err := filepath.Glob("testdata/logs/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no logs: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var l oldLog
		if err := json.Unmarshal(text, &l); err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		for _, m := range l.Messages {
			if strings.HasPrefix(m.Subject, subject) {
				f.Add([]byte(m.Body))
			}
		}
	}
}

// FuzzDecodeEntry: no body makes DecodeEntry panic, and an accepted entry is
// the same after it was stored and read again.
func FuzzDecodeEntry(f *testing.F) {
	bodies(f, "log")
	f.Add(
		[]byte(
			`{"index":1,"kind":"turn","start":{},"answer":{"tool_calls":[{"arguments":"[1"}]},` +
				`"calls":[{"deadline":"9999-12-31T23:59:59.999999999-12:00"}]}`,
		),
	)
	f.Add([]byte(`{"index":9,"kind":"ended","end":{},"calls":[{}],"timer":"0001-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := run.DecodeEntry(body)
		if err != nil {
			return
		}
		first, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%s cannot be stored: %v", body, err)
		}
		back, err := run.DecodeEntry(first)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", first, err)
		}
		// {} for a field that was absent
		raw := cmpopts.IgnoreFields(provider.ToolCall{}, "Raw")
		if diff := cmp.Diff(e, back, cmpopts.EquateEmpty(), raw, comparePaths); diff != "" {
			t.Fatalf("%s (-first +again):\n%s", body, diff)
		}
		if again, err := json.Marshal(back); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("stored as\n%s\nthen as\n%s\n%v", first, again, err)
		}
		foldAny(t, e)
	})
}

// foldAny checks that an entry which decodes can be folded at its index.
func foldAny(t *testing.T, e run.Entry) {
	t.Helper()
	s := run.State{Phase: run.Ready, Seq: 1, LogIndex: e.Index - 1}
	var event run.Event = run.Answered{Meta: run.Meta{Seq: 2}, Entry: e}
	if e.Kind == run.EntryEnded {
		event = run.Ended{Meta: run.Meta{Seq: 2}, Entry: e}
	}
	s, err := s.Apply(event)
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	if len(s.Outstanding().All()) == 0 {
		t.Fatalf("%+v leaves nothing owed in %v", e, s.Phase)
	}
	s.Subtree()
}

// FuzzDecodeOutcome: no body makes DecodeOutcome panic, and an accepted outcome
// is the same after it was stored and read again.
func FuzzDecodeOutcome(f *testing.F) {
	bodies(f, "in.1")
	f.Add([]byte(`{"status":"completed","result":"\ud800"}`))
	f.Add([]byte(`{"STATUS":"failed","kind":"new"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := run.DecodeOutcome(body)
		if err != nil {
			return
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatalf("%s cannot be stored: %v", body, err)
		}
		back, err := run.DecodeOutcome(text)
		if err != nil || back != o {
			t.Fatalf("%s came back as %+v, was %+v (error %v)", body, back, o, err)
		}
	})
}
