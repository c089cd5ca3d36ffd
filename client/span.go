package client

import (
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// SpanKind says what the time of a span goes to.
type SpanKind string

// The kinds of spans.
const (
	// SpanQueue: the run waits for a worker, a slot or a rate limit.
	SpanQueue SpanKind = "queue"
	// SpanModel: a worker asks the model of the run.
	SpanModel SpanKind = "model"
	// SpanTool: a worker or a server carries out the tool of a tool run.
	SpanTool SpanKind = "tool"
	// SpanWait: the run waits for runs that it has called, or for mail.
	SpanWait SpanKind = "wait"
	// SpanHeld: the run waits for a person.
	SpanHeld SpanKind = "held"
)

// Span is a part of the time of a run.
type Span struct {
	Kind SpanKind  `json:"kind"`
	From time.Time `json:"from"`
	// To is the end, zero for the span that the run is in.
	To time.Time `json:"to,omitzero"`
}

// span is the span that a run is in.
type span struct {
	kind SpanKind
	// from is its beginning, and to the time of the last event in it.
	from, to time.Time
	// modelMS is the time of all requests to the model so far.
	modelMS int64
}

// appendTo appends the span to those before it, or makes the last one of them
// longer. It leaves out a span without a length.
func (s span) appendTo(all []Span) []Span {
	last := len(all) - 1
	switch {
	case !s.to.After(s.from):
		return all
	case last >= 0 && all[last].Kind == s.kind && all[last].To.Equal(s.from):
		all = slices.Clone(all)
		all[last].To = s.to
		return all
	}
	return append(slices.Clip(all), Span{s.kind, s.from, s.to})
}

// spend adds the time until an event to the spans of a run. The state is that
// of the run after the event. The stored messages do not say when a worker
// began to ask the model: the time of the requests, which the answer has, is
// taken as the last part of the time before it.
func (r RunInfo) spend(e Event, s run.State) RunInfo {
	if e.Kind == Stalled {
		return r // its time is that of a look
	}
	d := &r.doing
	if d.from.IsZero() {
		d.kind, d.from, d.to = SpanQueue, e.Time, e.Time
	}
	at := e.Time
	if at.Before(d.from) {
		at = d.from // the clocks of a live event and of the server differ
	}
	d.to = at
	if asked := requests(&r, e); asked > 0 && d.kind == SpanQueue {
		begun := at.Add(-asked)
		if begun.Before(d.from) {
			begun = d.from
		}
		d.to = begun
		r.Spans = d.appendTo(r.Spans)
		d.kind, d.from, d.to = SpanModel, begun, at
	}
	if kind := r.kind(e, s); kind != d.kind || !r.Ended.IsZero() {
		r.Spans = d.appendTo(r.Spans)
		d.kind, d.from, d.to = kind, at, at
	}
	return r
}

// requests returns the time of the requests to the model that an event of a run
// reports for the first time.
func requests(r *RunInfo, e Event) time.Duration {
	if e.Run.Path != r.Run.Path {
		return 0 // the end of a run that it has called
	}
	var ms int64
	switch e.Kind { //nolint:exhaustive // no other event has the time of a request
	case Answered, BecameIdle:
		ms = e.Entry.ModelMS
	case ChildEnded, TreeEnded:
		ms = e.Outcome.ModelMS - r.doing.modelMS
	}
	r.doing.modelMS += ms
	return time.Duration(ms) * time.Millisecond
}

// kind is the kind of the span that begins with an event, or goes on.
func (r RunInfo) kind(e Event, s run.State) SpanKind {
	switch e.Kind { //nolint:exhaustive // the state tells the rest
	case Asking, Retrying:
		return SpanModel
	case Running:
		return SpanTool
	case RateLimited:
		return SpanQueue
	}
	switch s.Phase {
	case run.Held:
		return SpanHeld
	case run.Awaiting, run.Idle:
		return SpanWait
	case run.Polling:
		return SpanTool
	case run.Ready, run.None, run.Completed, run.Failed:
	}
	if r.Input.Tool != nil {
		return SpanTool
	}
	if r.doing.kind == SpanModel && r.Run.Path == e.Run.Path && e.Kind == MailReceived {
		return SpanModel // the request in flight goes on
	}
	return SpanQueue
}
