package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
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
var comparePaths = cmpopts.EquateComparable(subjects.Path{}, subjects.By{})

// TestDecodeEntryRefuses: a malformed body gives no entry, and an error that
// names the mistake.
func TestDecodeEntryRefuses(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"nothing", ``, "unexpected end"},
		{"no object", `[]`, "cannot unmarshal"},
		{"no index", `{"kind":"ended","end":{}}`, "index must be at least 1, got 0"},
		{"negative index", `{"index":-1,"kind":"ended","end":{}}`, "index must be at least 1, got -1"},
		{"no kind", `{"index":2}`, `kind "" is not known`},
		{"an unknown kind", `{"index":2,"kind":"odd"}`, `kind "odd" is not known`},
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
			"more tool calls than decisions",
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{},{}]},"calls":[{}]}`,
			"one decision for each of its calls",
		},
		{
			"more decisions than tool calls",
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
			"a spread with a tool call without a decision",
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
		{"a negative trigger", `{"index":2,"kind":"ended","end":{},"trigger":-1}`, "cannot unmarshal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, err := run.DecodeEntry([]byte(test.body))
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasPrefix(err.Error(), "log entry") {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if diff := cmp.Diff(run.Entry{}, e, comparePaths); diff != "" {
				t.Errorf("got an entry with the error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeEntryRestoresTheTask: the log has the task and the context of a
// call once, in the arguments as the model wrote them. DecodeEntry copies them
// to the call.
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
	for _, text := range []string{"do it", "soon"} {
		if n := strings.Count(string(body), text); n != 1 {
			t.Errorf("%q is in the entry %d times, want once: %s", text, n, body)
		}
	}
	back, err := run.DecodeEntry(body)
	if err != nil {
		t.Fatal(err)
	}
	e.Calls[0].Task, e.Calls[0].Context = "do it", "soon"
	if diff := cmp.Diff(e, back, comparePaths); diff != "" {
		t.Errorf("the entry that was read back (-want +got):\n%s", diff)
	}
}

// TestDecodeEntryRestoresTasks: DecodeEntry copies the tasks of a tool call
// that spawns several runs to their calls, in order.
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
		t.Errorf("the entry that was read back (-want +got):\n%s", diff)
	}
	if back.ToolCalls() != 3 || len(back.CallsOf(1)) != 2 || back.CallsOf(2)[0].Task != "z" {
		t.Errorf("got %d tool calls, the second with %v, the third with %v; want 3, with 2 calls, with the task z",
			back.ToolCalls(), back.CallsOf(1), back.CallsOf(2))
	}
}

// TestDecodeOutcomeRefuses: a malformed body gives no outcome, and an error
// that names the mistake.
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
		if err == nil || !strings.Contains(err.Error(), test.want) || !reflect.DeepEqual(o, run.Outcome{}) {
			t.Errorf("%s: got %+v, error %v, want no outcome and an error with %q", test.body, o, err, test.want)
		}
	}
}

// TestDecode: each kind of message decodes to its event. A malformed body is no
// event, an event that says why it is malformed, or an error.
func TestDecode(t *testing.T) {
	m := run.Meta{Seq: 7, Time: time.Unix(1, 0).UTC()}
	key := subjects.Root.MailKey(2, 1)
	alice := user(t, "operator", "alice")
	byAlice := m
	byAlice.Sender = alice
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
			"call of a tool",
			subjects.Address{Kind: subjects.Tool},
			`{"tool":{"name":"x","arguments":{}}}`,
			run.Called{Meta: m, Input: run.Input{
				Tool: &run.ToolInput{Name: "x", Arguments: json.RawMessage(`{}`)},
			}},
		},
		{
			"log entry",
			subjects.Address{Kind: subjects.Log},
			`{"index":2,"kind":"ended","end":{"kind":"timeout","text":"x"}}`,
			run.Ended{Meta: m, Entry: run.Entry{
				Index: 2, Kind: run.EntryEnded, End: &run.End{Kind: run.KindTimeout, Text: "x"},
			}},
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
		{
			"approval with arguments",
			subjects.Address{Kind: subjects.Approve},
			`{"approve":true,"arguments":{"1":{"sum":2}}}`,
			run.Approved{Meta: m, Approval: run.Approval{
				Approve: true, Arguments: map[int]json.RawMessage{1: json.RawMessage(`{"sum":2}`)},
			}},
		},
		{
			"arguments that are no object",
			subjects.Address{Kind: subjects.Approve},
			`{"approve":true,"arguments":{"1":[]}}`,
			nil,
		},
		{
			"denial with arguments",
			subjects.Address{Kind: subjects.Approve},
			`{"approve":false,"arguments":{"1":{}}}`,
			nil,
		},
		{"malformed approval", subjects.Address{Kind: subjects.Approve}, `yes`, nil},
		{
			"settlement",
			subjects.Address{Kind: subjects.Settle},
			`{"attempt":"x","as":"done","text":"paid","by":"ann"}`,
			run.Settled{Meta: m, Settlement: run.Settlement{Attempt: "x", As: run.SettleDone, Text: "paid", By: "ann"}},
		},
		{
			"answer to a form",
			subjects.Address{Kind: subjects.Settle},
			`{"attempt":"f","as":"answer","answers":{"q":{"city":"Bern"}}}`,
			run.Settled{Meta: m, Settlement: run.Settlement{
				Attempt: "f", As: run.SettleAnswer,
				Answers: map[string]json.RawMessage{"q": json.RawMessage(`{"city":"Bern"}`)},
			}},
		},
		{"malformed settlement", subjects.Address{Kind: subjects.Settle}, `yes`, nil},
		{"settlement of no kind", subjects.Address{Kind: subjects.Settle}, `{"as":"perhaps"}`, nil},
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
			"cancel message with a kind that no cancel message has",
			subjects.Address{Kind: subjects.Cancel},
			`{"kind":"turns","text":"x"}`,
			run.Cancelled{Meta: m, End: run.End{Kind: run.KindCancelled, Text: "x"}},
		},
		{
			"mail of a known sender",
			subjects.Address{Kind: subjects.Mail, Key: key, By: alice},
			`{"from":"r","text":"x"}`,
			run.Mailed{Meta: byAlice, Mail: run.Mail{Seq: 7, Key: "r-2-1", From: "r", Text: "x", Sender: alice}},
		},
		{
			"approval of a known sender",
			subjects.Address{Kind: subjects.Approve, By: alice},
			`{"approve":false,"by":"bob"}`,
			run.Approved{Meta: byAlice, Approval: run.Approval{By: "bob"}},
		},
		{
			"sender of a cancel message",
			subjects.Address{Kind: subjects.CancelBy, By: alice},
			`{"text":"x"}`,
			run.CancelSent{Meta: byAlice, End: run.End{Kind: run.KindCancelled, Text: "x"}},
		},
		{"unknown kind", subjects.Address{Kind: subjects.Other}, "x", nil},
		{"submission", subjects.Address{Kind: subjects.Submission}, "x", nil},
		{"progress", subjects.Address{Kind: subjects.Progress}, "x", nil},
	}
	// The errors themselves are checked below.
	ignoreMalformed := cmp.Options{
		cmpopts.IgnoreFields(run.Replied{}, "Malformed"),
		cmpopts.IgnoreFields(run.OutcomeStored{}, "Malformed"),
	}
	for _, test := range tests {
		got, err := run.Decode(test.at, m, []byte(test.body))
		if diff := cmp.Diff(test.want, got, comparePaths, ignoreMalformed); diff != "" || err != nil {
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

// seedBodies adds bodies of testdata/logs as seeds: those of the messages whose
// subjects begin with subject.
func seedBodies(f *testing.F, subject string) {
	f.Helper()
	files, err := filepath.Glob("testdata/logs/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("found %d files in testdata/logs, error %v", len(files), err)
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
	seedBodies(f, "log")
	f.Add(
		[]byte(
			`{"index":1,"kind":"turn","start":{},"answer":{"tool_calls":[{"arguments":"[1"}]},` +
				`"calls":[{"deadline":"9999-12-31T23:59:59.999999999-12:00"}]}`,
		),
	)
	f.Add([]byte(`{"index":9,"kind":"ended","end":{},"timer":"0001-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"index":1,"kind":"idle","start":{},"answer":{"content":"x"}}`))
	f.Add([]byte(`{"index":2,"kind":"final","answer":{"content":"x"},"end":{"kind":"error","text":"x"}}`))
	f.Add([]byte(`{"index":1,"kind":"started","attempt":{"id":"x"}}`))
	f.Add(
		[]byte(
			`{"index":2,"kind":"turn","answer":{"tool_calls":[{}]},"calls":[{}],` +
				`"review":{"op":"review","error":"x","kind":"unknown_agent"}}`,
		),
	)
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
		// Marshal writes {} for a Raw that was absent.
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

// foldAny checks that an entry which decodes can be folded at its index, by a
// run that may have such an entry. After it the run owes an effect.
func foldAny(t *testing.T, e run.Entry) {
	t.Helper()
	s := run.State{Phase: run.Ready, Seq: 1, LogIndex: e.Index - 1}
	switch {
	case e.Kind == run.EntryStarted, e.Kind == run.EntryHeld, e.Kind == run.EntryTask:
		s.Input.Tool = &run.ToolInput{}
		s.Attempt = &run.StartedAttempt{}
	case e.Index > 1:
		first := run.Entry{Index: 1, Kind: run.EntryIdle, Start: &run.Start{}, Answer: &provider.Response{}}
		s.Turns = run.Turns{{Entry: first}}
	}
	s, err := s.Apply(e.Event(run.Meta{Seq: 2}))
	if err != nil {
		t.Fatalf("fold of %+v: %v", e, err)
	}
	if len(s.Outstanding().All()) == 0 {
		t.Fatalf("after %+v the run is %v and owes nothing, want an effect", e, s.Phase)
	}
	s.Subtree() // must not panic
}

// FuzzDecodeOutcome: no body makes DecodeOutcome panic, and an accepted outcome
// is the same after it was stored and read again.
func FuzzDecodeOutcome(f *testing.F) {
	seedBodies(f, "in.1")
	f.Add([]byte(`{"status":"completed","result":"\ud800"}`))
	f.Add([]byte(`{"STATUS":"failed","kind":"new"}`))
	f.Add([]byte(`{"status":"failed","partial":{"results":[],"text":"x"}}`))
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
		if diff := cmp.Diff(o, back, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%s, stored as %s: error %v (-first +again):\n%s", body, text, err, diff)
		}
	})
}
