// Package otlp makes OpenTelemetry spans of stored trees, and sends them to a
// collector over OTLP/HTTP. It keeps one invariant: the spans of a tree follow
// from its messages alone. A tree that is exported twice has each span once,
// since the ids are the same.
//
// A run is a span invoke_agent, each of its turns a span chat below it, and a
// call that made a run a span execute_tool around that run. A call that was
// refused is a span execute_tool, too, with the kind of its refusal. The
// attributes are those of the conventions for generative AI.
//
//	e, err := otlp.FromEnv(os.Getenv, "v1.2.0")
//	...
//	err = e.Export(ctx, otlp.Spans(snapshot, otlp.Options{}))
package otlp

import (
	"encoding/json"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Options say what spans have.
type Options struct {
	// Content adds tasks, answers, arguments and results.
	Content bool
}

// Spans returns the spans of a tree that has ended. A run without an outcome
// ends with the tree. A tree whose submitter does not record it has none.
func Spans(s *client.Snapshot, o Options) []*tracepb.Span {
	t := &tree{
		Options: o, context: trace.Of(s.Root.Tree, ""),
		runs: map[subjects.Path]*runSpans{}, tools: map[subjects.Path]provider.ToolCall{},
	}
	for _, e := range s.Events {
		if !e.Live() {
			t.add(e)
		}
	}
	if t.context.Off {
		return nil
	}
	var all []*tracepb.Span
	for _, path := range t.order {
		all = append(all, t.spans(t.runs[path])...)
	}
	return all
}

// tree collects the spans of a tree.
type tree struct {
	Options
	context trace.Context
	runs    map[subjects.Path]*runSpans
	// tools are the calls that made runs, as far as the record says.
	tools map[subjects.Path]provider.ToolCall
	// order has the paths in the order of the calls.
	order []subjects.Path
	// last is the time of the last event.
	last time.Time
}

// runSpans is what the spans of a run are made of.
type runSpans struct {
	run    subjects.Run
	input  run.Input
	called time.Time
	// model is the "provider/model", empty if the record does not say.
	model string
	turns []turn
	// logged is the number of turns on the log, those without a request to
	// the model included.
	logged  int
	totals  run.Totals
	outcome *run.Outcome
	ended   time.Time
	// refused says that the call was refused, so that there is no run.
	refused bool
}

// turn is an answer of a model.
type turn struct {
	number  int
	at      time.Time
	took    time.Duration
	retries int
	worker  string
	answer  provider.Response
	failed  run.Kind
}

// add takes over an event.
func (t *tree) add(e client.Event) {
	t.last = e.Time
	defer t.withhold(e)
	switch e.Kind { //nolint:exhaustive // the others make no span
	case client.Called:
		r := t.at(e.Run)
		r.input, r.called = e.Input, e.Time
		if e.Run.Path.IsRoot() {
			t.context = trace.Of(e.Run.Tree, e.Traceparent)
		}
	case client.Answered, client.BecameIdle:
		t.at(e.Run).log(e)
		for i, call := range e.Entry.Answer.ToolCalls {
			from, to := e.Entry.CallRange(i)
			for index := from; index < to; index++ {
				t.tools[e.Run.Path.Child(e.Turn, index)] = call
			}
		}
		for i, call := range e.Entry.Calls {
			if call.Failed() {
				refused := run.End{Kind: call.Kind, Text: call.Error}.Outcome()
				refused.Worker = e.Worker
				t.refuse(e, e.Run.Path.Child(e.Turn, i), e.Time, refused)
			}
		}
	case client.ChildEnded, client.TreeEnded:
		r := t.at(e.Run)
		r.outcome, r.ended = &e.Outcome, e.Time
	}
}

// withhold refuses the calls of a turn that a person or a supervisor does not
// let take effect.
func (t *tree) withhold(e client.Event) {
	n := len(e.State.Turns)
	if n == 0 || e.State.Turns[n-1].Withheld() == "" {
		return
	}
	turn := e.State.Turns[n-1]
	for i, o := range turn.Outcomes {
		if path := e.Run.Path.Child(n, i); o != nil && t.runs[path] == nil {
			t.refuse(e, path, turn.Time, *o)
		}
	}
}

// maxToolName bounds the name of a tool that was refused, in bytes: a model may
// have invented it.
const maxToolName = 64

// refuse adds a call that made no run. It was made at a time, and is refused by
// the event.
func (t *tree) refuse(e client.Event, path subjects.Path, made time.Time, o run.Outcome) {
	call := t.tools[path]
	call.Name = strings.ToValidUTF8(call.Name[:min(len(call.Name), maxToolName)], "")
	t.tools[path] = call
	at := e.Run
	at.Path = path
	r := t.at(at)
	r.called, r.ended, r.outcome, r.refused = made, e.Time, &o, true
}

// at returns the collected parts of a run.
func (t *tree) at(r subjects.Run) *runSpans {
	known := t.runs[r.Path]
	if known == nil {
		known = &runSpans{run: r}
		t.runs[r.Path] = known
		t.order = append(t.order, r.Path)
	}
	return known
}

// log takes over a turn of the log.
func (r *runSpans) log(e client.Event) {
	if e.Entry.Start != nil {
		r.model = e.Entry.Start.Model
	}
	one := run.Turns{{Entry: e.Entry}}.Totals()
	r.totals = r.totals.Add(one)
	r.logged = e.Turn
	if one.ModelCalls == 0 {
		return // an interrupt, or the end of a budget
	}
	t := turn{
		number: e.Turn, at: e.Time, took: ms(e.Entry.ModelMS), retries: e.Entry.Retries, worker: e.Worker,
		answer: *e.Entry.Answer,
	}
	if e.Entry.End != nil {
		t.failed = e.Entry.End.Kind
	}
	r.turns = append(r.turns, t)
}

// end completes a run at a time. The outcome of a run has its last turn, unless
// that is on the log.
func (r *runSpans) end(last time.Time) {
	if r.outcome == nil {
		r.ended = last
		return
	}
	o := r.outcome
	if o.Tool != "" || o.Turns <= r.logged {
		return
	}
	used := func(all, before int) int { return max(0, all-before) }
	t := turn{
		number: o.Turns, at: r.ended, took: ms(max(0, o.ModelMS-r.totals.ModelMS)), worker: o.Worker,
		answer: provider.Response{
			Content: o.Result, Model: o.Model, StopReason: o.StopReason, Usage: provider.Usage{
				InputTokens:  used(o.Usage.InputTokens, r.totals.InputTokens),
				OutputTokens: used(o.Usage.OutputTokens, r.totals.OutputTokens),
				CachedTokens: used(o.Usage.CachedTokens, r.totals.CachedTokens),
			},
		},
	}
	if o.Status != run.StatusCompleted {
		t.failed = o.Kind
	}
	r.turns = append(r.turns, t)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// spans returns the spans of a run.
func (t *tree) spans(r *runSpans) []*tracepb.Span {
	if r.called.IsZero() {
		// The record has an outcome, and no call any more.
		r.called = r.ended
	}
	r.end(t.last)
	above, _, _, below := r.run.Path.Parent()
	parent := t.context.Parent
	if below {
		parent = trace.Run(above)
	}
	var all []*tracepb.Span
	// A fork works beside the run that called it, and a review is no tool.
	if below && r.input.Forked == nil && !r.input.Review {
		all = append(all, t.toolSpan(r, parent))
		parent = trace.Tool(r.run.Path)
	}
	if r.refused || r.isTool() {
		return all
	}
	all = append(all, t.runSpan(r, parent))
	for _, one := range r.turns {
		all = append(all, t.chatSpan(r, one))
	}
	return all
}

func (r *runSpans) isTool() bool {
	return r.input.Tool != nil || r.outcome != nil && r.outcome.Tool != ""
}

// span makes a span of a run.
func (t *tree) span(r *runSpans, name string, id, parent trace.SpanID) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: t.context.Trace[:], SpanId: id[:], Name: name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(r.called), EndTimeUnixNano: nanos(r.ended), Flags: 1,
		Attributes: []*commonpb.KeyValue{
			text("axe.tree", r.run.Tree.String()), text("axe.path", r.run.Path.String()),
			text("gen_ai.agent.name", r.run.Agent.String()), text("gen_ai.conversation.id", r.run.Tree.String()),
		},
	}
	if parent != (trace.SpanID{}) {
		s.ParentSpanId = parent[:]
	}
	return s
}

// runSpan makes the span of a run.
func (t *tree) runSpan(r *runSpans, parent trace.SpanID) *tracepb.Span {
	s := t.span(r, "invoke_agent "+r.run.Agent.String(), trace.Run(r.run.Path), parent)
	s.Attributes = append(s.Attributes, text("gen_ai.operation.name", "invoke_agent"))
	s.Attributes = append(s.Attributes, modelAttrs(r.model)...)
	if t.Content {
		s.Attributes = append(s.Attributes, messages("gen_ai.input.messages", message("user", r.input.Task)))
	}
	if o := r.outcome; o != nil {
		s.Attributes = append(s.Attributes, text("axe.worker", o.Worker), number("axe.turns", o.Turns))
		s.Attributes = append(s.Attributes, usage(o.Usage)...)
		if t.Content && o.Status == run.StatusCompleted {
			s.Attributes = append(s.Attributes, messages("gen_ai.output.messages", message("assistant", o.Result)))
		}
	}
	t.fail(s, r)
	return s
}

// toolSpan makes the span of the call of a tool that made a run.
func (t *tree) toolSpan(r *runSpans, parent trace.SpanID) *tracepb.Span {
	call := t.tools[r.run.Path]
	name := call.Name
	switch in := r.input; {
	case name != "":
	case in.Tool != nil:
		name = in.Tool.Name
	default:
		name = "call_agent"
	}
	s := t.span(r, "execute_tool "+name, trace.Tool(r.run.Path), parent)
	s.Attributes = append(s.Attributes, text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", name),
		text("gen_ai.tool.type", "function"))
	if call.ID != "" {
		s.Attributes = append(s.Attributes, text("gen_ai.tool.call.id", call.ID))
	}
	if o := r.outcome; o != nil {
		if o.Worker != "" { // a person's denial has none
			s.Attributes = append(s.Attributes, text("axe.worker", o.Worker))
		}
		if t.Content && o.Status == run.StatusCompleted {
			s.Attributes = append(s.Attributes, text("gen_ai.tool.call.result", o.Result))
		}
	}
	if t.Content && name == call.Name {
		s.Attributes = append(s.Attributes, text("gen_ai.tool.call.arguments", string(call.RawArguments())))
	}
	t.fail(s, r)
	return s
}

// chatSpan makes the span of a turn. It begins as long before its end as the
// requests took.
func (t *tree) chatSpan(r *runSpans, one turn) *tracepb.Span {
	model := modelOf(r, one)
	s := t.span(r, strings.TrimSpace("chat "+model), trace.Chat(r.run.Path, one.number), trace.Run(r.run.Path))
	s.Kind = tracepb.Span_SPAN_KIND_CLIENT
	began := one.at.Add(-one.took)
	if began.Before(r.called) {
		began = r.called
	}
	s.StartTimeUnixNano, s.EndTimeUnixNano = nanos(began), nanos(one.at)
	s.Attributes = append(s.Attributes, text("gen_ai.operation.name", "chat"), number("axe.turn", one.number),
		number("axe.retries", one.retries), text("axe.worker", one.worker))
	s.Attributes = append(s.Attributes, modelAttrs(r.model)...)
	s.Attributes = append(s.Attributes, usage(one.answer.Usage)...)
	if one.answer.Model != "" {
		s.Attributes = append(s.Attributes, text("gen_ai.response.model", one.answer.Model))
	}
	if why := one.answer.StopReason; why != "" {
		s.Attributes = append(s.Attributes, list("gen_ai.response.finish_reasons", why))
	}
	if t.Content && one.failed == "" {
		m := message("assistant", one.answer.Content)
		for _, c := range one.answer.ToolCalls {
			m.Parts = append(m.Parts, part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: c.RawArguments()})
		}
		s.Attributes = append(s.Attributes, messages("gen_ai.output.messages", m))
	}
	if one.failed != "" {
		setError(s, one.failed)
	}
	return s
}

// modelOf returns the name of a turn's model. A leaf has none on its log, but
// that of its answer.
func modelOf(r *runSpans, one turn) string {
	if _, name, ok := strings.Cut(r.model, "/"); ok {
		return name
	}
	return one.answer.Model
}

// fail gives a span the failure of its run. Its text may be content.
func (t *tree) fail(s *tracepb.Span, r *runSpans) {
	switch o := r.outcome; {
	case o == nil:
		setError(s, "unfinished")
	case o.Status != run.StatusCompleted:
		setError(s, o.Kind)
		if t.Content {
			s.Status.Message = o.Error
		}
	}
}

func setError(s *tracepb.Span, kind run.Kind) {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: string(kind)}
	s.Attributes = append(s.Attributes, text("error.type", string(kind)))
}

// modelAttrs are the attributes of a "provider/model".
func modelAttrs(model string) []*commonpb.KeyValue {
	vendor, name, ok := strings.Cut(model, "/")
	if !ok {
		return nil
	}
	return []*commonpb.KeyValue{text("gen_ai.provider.name", vendor), text("gen_ai.request.model", name)}
}

func usage(u provider.Usage) []*commonpb.KeyValue {
	return []*commonpb.KeyValue{
		number("gen_ai.usage.input_tokens", u.InputTokens), number("gen_ai.usage.output_tokens", u.OutputTokens),
		number("gen_ai.usage.cache_read.input_tokens", u.CachedTokens),
	}
}

// chatMessage is a message in the form of the conventions.
type chatMessage struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitzero"`
	ID        string          `json:"id,omitzero"`
	Name      string          `json:"name,omitzero"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// message makes a message with a text, if there is one.
func message(role, content string) chatMessage {
	m := chatMessage{Role: role, Parts: []part{}}
	if content != "" {
		m.Parts = append(m.Parts, part{Type: "text", Content: content})
	}
	return m
}

func messages(key string, m chatMessage) *commonpb.KeyValue {
	b, err := json.Marshal([]chatMessage{m})
	if err != nil {
		b = []byte("[]") // arguments that are no JSON
	}
	return text(key, string(b))
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: stringValue(value)}
}

func stringValue(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(s, "\uFFFD")}}
}

func number(key string, n int) *commonpb.KeyValue {
	return &commonpb.KeyValue{
		Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(n)}},
	}
}

func list(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{
		ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{stringValue(value)}},
	}}}
}

func nanos(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }
