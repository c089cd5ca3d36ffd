package otlp_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/otlp"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// story is the events of a tree. Each is a second after the one before.
type story struct {
	t *testing.T
	s *client.Snapshot
}

func newStory(t *testing.T) *story {
	t.Helper()
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	return &story{t, &client.Snapshot{Root: subjects.Space{}.Run(agent, tree, subjects.Root)}}
}

// add adds an event of the run at a path.
func (s *story) add(path string, e client.Event) {
	p, err := subjects.ParsePath(path)
	if err != nil {
		s.t.Fatal(err)
	}
	e.Run = s.s.Root
	e.Run.Path = p
	e.Seq = uint64(len(s.s.Events) + 1)
	e.Time = began.Add(time.Duration(e.Seq) * time.Second)
	s.s.Events = append(s.s.Events, e)
}

// answered makes the event of a turn that calls tools.
func answered(n int, calls ...provider.ToolCall) client.Event {
	e := run.Entry{
		Index: n, Kind: run.EntryTurn, ModelMS: 400, Retries: 1,
		Answer: &provider.Response{
			Content: "secret thoughts", Model: "gpt-5-2026", ToolCalls: calls, StopReason: "tool_calls",
			Usage: provider.Usage{InputTokens: 100, OutputTokens: 10, CachedTokens: 50},
		},
	}
	if n == 1 {
		e.Start = &run.Start{Model: "openai/gpt-5"}
	}
	return client.Event{Kind: client.Answered, Turn: n, Worker: "one", Entry: e}
}

// ended makes the event of an outcome.
func ended(o run.Outcome) client.Event {
	kind := client.ChildEnded
	if o.Path == "r" {
		kind = client.TreeEnded
	}
	return client.Event{Kind: kind, Outcome: o}
}

func call(id, name string) provider.ToolCall {
	return provider.NewToolCall(id, name, json.RawMessage(`{"key":"secret argument"}`))
}

// tell plays a tree with every way in which a run comes to be: a call, a tool, a
// fork and a review. One run fails, and one has no outcome.
func tell(t *testing.T, traceparent string) *client.Snapshot {
	t.Helper()
	s := newStory(t)
	s.add("r", client.Event{Kind: client.Called, Input: run.Input{Task: "secret task"}, Traceparent: traceparent})
	s.add("r", answered(1, call("c0", "call_agent"), call("c1", "read_file"), call("c2", "fork")))
	s.add("r-1-0", client.Event{Kind: client.Called})
	s.add("r-1-1", client.Event{Kind: client.Called, Input: run.Input{Tool: &run.ToolInput{Name: "read_file"}}})
	s.add("r-1-2", client.Event{Kind: client.Called, Input: run.Input{Forked: &run.Forked{}}})
	s.add("r-1-3", client.Event{Kind: client.Called, Input: run.Input{Review: true}})
	s.add("r-1-3", ended(run.Outcome{Status: run.StatusCompleted, Path: "r-1-3", Turns: 1, Model: "gpt-5"}))
	s.add("r-1-1", ended(run.Outcome{
		Status: run.StatusCompleted, Path: "r-1-1", Tool: "read_file", Result: "secret file",
	}))
	s.add("r-1-0", ended(run.Outcome{
		Status: run.StatusFailed, Kind: run.KindTimeout, Error: "secret error", Path: "r-1-0", Turns: 1,
	}))
	s.add("r", ended(run.Outcome{
		Status: run.StatusCompleted, Result: "secret answer", Path: "r", Worker: "two", Turns: 2, ModelMS: 1000,
		Model: "gpt-5-2026", StopReason: "stop", Usage: provider.Usage{InputTokens: 300, OutputTokens: 30},
	}))
	return s.s
}

// describe returns spans as lines: path, name, parent, times in ms, status.
func describe(spans []*tracepb.Span) (lines []string) {
	names := map[string]string{}
	for _, s := range spans {
		names[hex.EncodeToString(s.GetSpanId())] = attr(s, "axe.path") + " " + s.GetName()
	}
	at := func(nanos uint64) int64 { return time.Unix(0, int64(nanos)).Sub(began).Milliseconds() }
	for _, s := range spans {
		parent := hex.EncodeToString(s.GetParentSpanId())
		if name, ok := names[parent]; ok {
			parent = name
		}
		lines = append(lines, fmt.Sprintf("%s < %s %d-%d %s", names[hex.EncodeToString(s.GetSpanId())], parent,
			at(s.GetStartTimeUnixNano()), at(s.GetEndTimeUnixNano()), s.GetStatus().GetMessage()))
	}
	slices.Sort(lines)
	return lines
}

// attr returns an attribute as text.
func attr(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() != key {
			continue
		}
		if n := a.GetValue().GetIntValue(); n != 0 {
			return strconv.FormatInt(n, 10)
		}
		return a.GetValue().GetStringValue()
	}
	return ""
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestSpans: a tree has one span for each run, turn and call of a tool, each
// below its own parent.
func TestSpans(t *testing.T) {
	spans := otlp.Spans(tell(t, traceparent), otlp.Options{})
	want := []string{
		"r invoke_agent lead < b7ad6b7169203331 1000-10000 ",
		"r chat gpt-5 < r invoke_agent lead 1600-2000 ",
		"r chat gpt-5 < r invoke_agent lead 9400-10000 ",
		"r-1-0 execute_tool call_agent < r invoke_agent lead 3000-9000 timeout",
		"r-1-0 invoke_agent lead < r-1-0 execute_tool call_agent 3000-9000 timeout",
		"r-1-0 chat < r-1-0 invoke_agent lead 9000-9000 timeout",
		"r-1-1 execute_tool read_file < r invoke_agent lead 4000-8000 ",
		"r-1-2 invoke_agent lead < r invoke_agent lead 5000-10000 unfinished",
		"r-1-3 invoke_agent lead < r invoke_agent lead 6000-7000 ",
		"r-1-3 chat gpt-5 < r-1-3 invoke_agent lead 7000-7000 ",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, describe(spans)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	attrs := map[string]string{}
	for _, s := range spans {
		if id := trace.Chat(subjects.Root, 2); slices.Equal(s.GetSpanId(), id[:]) {
			for _, a := range s.GetAttributes() {
				attrs[a.GetKey()] = attr(s, a.GetKey())
			}
		}
	}
	if diff := cmp.Diff(map[string]string{
		"axe.tree": "T1", "axe.path": "r", "axe.turn": "2", "axe.retries": "", "axe.worker": "two",
		"gen_ai.agent.name": "lead", "gen_ai.conversation.id": "T1", "gen_ai.operation.name": "chat",
		"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5-2026",
		"gen_ai.response.finish_reasons": "", "gen_ai.usage.input_tokens": "200", "gen_ai.usage.output_tokens": "20",
		"gen_ai.usage.cache_read.input_tokens": "",
	}, attrs); diff != "" {
		t.Errorf("attributes of the last turn (-want +got):\n%s", diff)
	}
}

// TestContent: spans have no content unless it is asked for.
func TestContent(t *testing.T) {
	without := fmt.Sprint(otlp.Spans(tell(t, ""), otlp.Options{}))
	with := fmt.Sprint(otlp.Spans(tell(t, ""), otlp.Options{Content: true}))
	for _, text := range []string{"task", "thoughts", "argument", "file", "error", "answer"} {
		if strings.Contains(without, "secret "+text) {
			t.Errorf("without content the spans have the %s", text)
		}
		if !strings.Contains(with, "secret "+text) {
			t.Errorf("with content the spans lack the %s", text)
		}
	}
}

// TestSubmittersDecision: the trace is that of the submitter, and there is none
// if the submitter does not record it. Without one it is the tree's own.
func TestSubmittersDecision(t *testing.T) {
	if got := otlp.Spans(tell(t, strings.TrimSuffix(traceparent, "1")+"0"), otlp.Options{}); len(got) > 0 {
		t.Errorf("a trace that is not recorded has %d spans", len(got))
	}
	theirs := otlp.Spans(tell(t, traceparent), otlp.Options{})
	ours := otlp.Spans(tell(t, ""), otlp.Options{})
	own := trace.Of(newStory(t).s.Root.Tree, "")
	for i := range theirs {
		if hex.EncodeToString(theirs[i].GetTraceId()) != traceparent[3:35] ||
			!slices.Equal(ours[i].GetTraceId(), own.Trace[:]) {
			t.Errorf("%s is in the wrong trace", ours[i].GetName())
		}
		if !slices.Equal(theirs[i].GetSpanId(), ours[i].GetSpanId()) {
			t.Errorf("%s has another id in another trace", ours[i].GetName())
		}
	}
	if parent := ours[0].GetParentSpanId(); len(parent) > 0 {
		t.Errorf("the root has the parent %x", parent)
	}
}

// long is the name of a tool that a model has invented.
var long = strings.Repeat("ä", 40)

// refusals folds a tree with calls that were refused: by the worker in the
// first turn, and by a person in the second one.
func refusals(t *testing.T) *client.Snapshot {
	t.Helper()
	s := newStory(t)
	var f client.Fold
	seq := uint64(0)
	next := func() run.Meta {
		seq++
		return run.Meta{Seq: seq, Time: began.Add(time.Duration(seq) * time.Second)}
	}
	add := func(m run.Meta, e run.Event) {
		s.s.Events = append(s.s.Events, f.Apply(subjects.Address{Run: s.s.Root}, m, e)...)
	}
	answer := func(calls ...provider.ToolCall) *provider.Response { return &provider.Response{ToolCalls: calls} }

	m := next()
	add(m, run.Called{Meta: m, Input: run.Input{Task: "secret task"}})
	m = next()
	add(m, run.Answered{Meta: m, Entry: run.Entry{
		Index: 1, Kind: run.EntryTurn, Trigger: 1, Worker: "one", Start: &run.Start{Model: "openai/gpt-5"},
		Answer: answer(call("c0", long), call("c1", "shell"), call("c2", "call_agent")),
		Calls: []run.Call{
			{Kind: run.KindError, Error: "Unknown tool"},
			{Kind: run.KindPolicy, Error: "shell error: not permitted by policy"},
			{Kind: run.KindBudget, Error: "secret budget"},
		},
	}})
	m = next()
	add(m, run.Answered{Meta: m, Entry: run.Entry{
		Index: 2, Kind: run.EntryTurn, Trigger: 2, Worker: "one", Approve: "it uses shell",
		Answer: answer(call("c3", "shell"), call("c4", "rm")),
		Calls: []run.Call{
			{Op: run.OpTool, Tool: "shell"},
			{Kind: run.KindError, Error: `Unknown tool: "rm"`},
		},
	}})
	m = next()
	add(m, run.Approved{Meta: m, Approval: run.Approval{Reason: "secret reason"}})
	m = next()
	add(m, run.OutcomeStored{Meta: m, Outcome: run.Outcome{Status: run.StatusCompleted, Path: "r", Turns: 2}})
	return s.s
}

// TestRefusedCalls: a call that made no run, since it was refused, is a span of
// the run that made the call.
func TestRefusedCalls(t *testing.T) {
	spans := otlp.Spans(refusals(t), otlp.Options{})
	var tools []*tracepb.Span
	for _, s := range spans {
		if attr(s, "gen_ai.operation.name") == "execute_tool" {
			tools = append(tools, s)
		}
	}
	want := []string{
		"r-1-0 execute_tool " + strings.Repeat("ä", 32) + " 2000-2000 error",
		"r-1-1 execute_tool shell 2000-2000 policy",
		"r-1-2 execute_tool call_agent 2000-2000 budget",
		"r-2-0 execute_tool shell 3000-4000 cancelled",
		"r-2-1 execute_tool rm 3000-3000 error",
	}
	var got []string
	for _, line := range describe(tools) {
		id := trace.Run(subjects.Root)
		got = append(got, strings.Replace(line, "< "+hex.EncodeToString(id[:])+" ", "", 1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("spans of calls (-want +got):\n%s", diff)
	}
	for _, s := range tools {
		path, err := subjects.ParsePath(attr(s, "axe.path"))
		if id := trace.Tool(path); err != nil || !slices.Equal(s.GetSpanId(), id[:]) {
			t.Errorf("%s has the id %x, want that of the call", s.GetName(), s.GetSpanId())
		}
		if s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR ||
			attr(s, "error.type") != s.GetStatus().GetMessage() || attr(s, "gen_ai.tool.type") != "function" ||
			attr(s, "gen_ai.agent.name") != "lead" || "execute_tool "+attr(s, "gen_ai.tool.name") != s.GetName() ||
			attr(s, "gen_ai.tool.call.id") == "" || attr(s, "gen_ai.tool.call.arguments") != "" {
			t.Errorf("%s is %v, want the attributes of a call that failed, and no arguments", s.GetName(), s)
		}
	}
	if worker := attr(tools[0], "axe.worker"); worker != "one" {
		t.Errorf("%s was refused by the worker %q, want one", tools[0].GetName(), worker)
	}
	if without := fmt.Sprint(spans); strings.Contains(without, "secret") {
		t.Errorf("without content the spans are %s", without)
	}
	with := fmt.Sprint(otlp.Spans(refusals(t), otlp.Options{Content: true}))
	for _, text := range []string{"secret budget", "secret reason", "secret argument"} {
		if !strings.Contains(with, text) {
			t.Errorf("with content the spans lack %q", text)
		}
	}
}
