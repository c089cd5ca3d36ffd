package verify_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// history has the messages of the tree T, which a test makes. Each message has
// a name. Sequences are multiples of ten as a rule, so that a test may put
// others between them. Message 30 is stored three seconds after the beginning.
type history struct {
	tb     testing.TB
	ms     map[string]*message // by name
	next   uint64
	agents map[string]string // of each path
}

// message is a stored message. A body that is no string is stored as JSON.
type message struct {
	verify.Message
	header map[string]string
	body   any
}

var (
	space    subjects.Space
	began    = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	deadline = began.Add(time.Hour)
)

// at is the time of the message with a sequence.
func at(seq uint64) time.Time { return began.Add(time.Duration(seq) * 100 * time.Millisecond) }

// parsed parses a token, which must be well-formed.
func parsed[T any](tb testing.TB, parse func(string) (T, error), s string) T {
	tb.Helper()
	v, err := parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// run returns the address of the run with a path.
func (s *history) run(path string) subjects.Run {
	return space.Run(
		parsed(s.tb, subjects.ParseAgent, s.agents[path]),
		parsed(s.tb, subjects.ParseTree, "T"),
		parsed(s.tb, subjects.ParsePath, path),
	)
}

// put stores a message with a name and a sequence. The sequence 0 stands for
// the next multiple of ten.
func (s *history) put(name string, seq uint64, subject string, body any) *message {
	if seq == 0 {
		s.next += 10
		seq = s.next
	}
	m := &message{verify.Message{Subject: subject, Seq: seq, Time: at(seq)}, map[string]string{}, body}
	s.ms[name] = m
	return m
}

// permits is the policy that every run passes on to its calls.
var permits = run.Policy{Tools: []string{"call_agent"}}

// call stores the call of a run with a deadline, by its parent or a client.
func (s *history) call(path string, seq uint64, limit time.Time) *message {
	r := s.run(path)
	in := run.Input{Task: "task of " + path}
	if !r.Path.IsRoot() {
		in.Policy = permits
	}
	m := s.put("call "+path, seq, r.Call(), in)
	h := subjects.Header{
		Tree:     r.Tree,
		Path:     r.Path,
		Depth:    r.Path.Depth(),
		MaxDepth: 3,
		Deadline: limit,
		Reply:    space.Result(r.Agent, r.Tree),
	}
	if up, turn, index, below := r.Path.Parent(); below {
		by := s.run(up.String())
		h.Parent, h.Reply = by.Agent, by.Reply(turn, index)
	}
	for _, kv := range h.Pairs() {
		m.header[kv[0]] = kv[1]
	}
	return m
}

// turn stores a log entry of a turn that calls children. Limit is the deadline
// of the calls, and the time of the turn's timer.
func (s *history) turn(path string, index int, seq, trigger uint64, limit time.Time, children ...string) *run.Entry {
	e := &run.Entry{
		Index: index, Kind: run.EntryTurn, Trigger: trigger, Seen: trigger, Worker: "w1", Timer: limit,
		Answer: &provider.Response{},
	}
	if index == 1 {
		e.Start = &run.Start{Model: "m", MaxDepth: 3, Policy: permits}
	}
	for i, child := range children {
		args := fmt.Appendf(nil, `{"agent":%q,"task":"task of %s"}`, s.agents[child], child)
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.NewToolCall(strconv.Itoa(i), "call_agent", args))
		e.Calls = append(e.Calls, run.Call{Agent: s.agents[child], Deadline: limit})
	}
	s.put(fmt.Sprintf("log %s %d", path, index), seq, s.run(path).Log(), e)
	return e
}

// idle stores an answer after which a run waits for mail.
func (s *history) idle(path string, index int, seq, trigger uint64) *run.Entry {
	e := &run.Entry{
		Index:   index,
		Kind:    run.EntryIdle,
		Trigger: trigger,
		Seen:    trigger,
		Worker:  "w1",
		Answer:  &provider.Response{},
	}
	if index == 1 {
		e.Start = &run.Start{Model: "m", MaxDepth: 3, Policy: permits}
	}
	s.put(fmt.Sprintf("log %s %d", path, index), seq, s.run(path).Log(), e)
	return e
}

// mail stores a message to a run.
func (s *history) mail(path, key string, seq uint64, m run.Mail) {
	s.put("mail "+key, seq, s.run(path).Mail(parsed(s.tb, subjects.ParseKey, key)), m)
}

// supervisedTurn begins a history in which a supervisor, and then a person,
// decides about the first turn of the root before its call is made.
func (s *history) supervisedTurn() {
	clear(s.ms)
	s.agents["r-1-1"] = "supervisor"
	s.call("r", 10, deadline)
	e := s.turn("r", 1, 20, 10, at(100), "r-1-0")
	e.Calls[0].Deadline = deadline
	e.Review = &run.Call{Op: run.OpReview, Agent: "supervisor", Deadline: at(100)}
	e.Start.Supervision = run.Supervision{Mode: run.Human, Agent: "supervisor", Timeout: time.Minute}
}

// verdict stores the review of the turn, with the supervisor's answer as
// message 90.
func (s *history) verdict(answer string) {
	s.call("r-1-1", 30, at(100)).body = run.Input{Review: true}
	s.outcome("r-1-1", 90, run.Outcome{Result: answer})
}

// inputOf returns the input of the run that a call of the root's first turn
// starts.
func (s *history) inputOf(index int) run.Input {
	e := s.entryNamed("log r 1")
	body, err := json.Marshal(e)
	if err != nil {
		s.tb.Fatal(err)
	}
	decoded, err := run.DecodeEntry(body)
	if err != nil {
		s.tb.Fatal(err)
	}
	return decoded.Start.InputFor(decoded.Calls[index])
}

// toolRun makes a history in which the root calls a tool whose effect may
// happen once. The call is begun twice.
func (s *history) toolRun(first run.Attempt, onUnknown run.OnUnknown) {
	clear(s.ms)
	s.call("r", 10, deadline)
	e := s.turn("r", 1, 20, 10, deadline, "r-1-0")
	e.Answer.ToolCalls[0] = provider.NewToolCall("0", "pay", []byte(`{}`))
	e.Calls[0] = run.Call{Op: run.OpTool, Agent: "a", Effect: run.ToolOnce, OnUnknown: onUnknown, Deadline: deadline}
	s.call("r-1-0", 30, deadline).body = s.inputOf(0)
	s.ms["call r-1-0"].Subject = s.run("r-1-0").ToolCall()
	for i, attempt := range []run.Attempt{first, {ID: "second"}} {
		e := &run.Entry{Index: i + 1, Kind: run.EntryStarted, Trigger: 30, Seen: 30, Worker: "w1", Attempt: &attempt}
		s.put("start "+attempt.ID, uint64(40+10*i), s.run("r-1-0").Log(), e)
	}
	s.outcome("r-1-0", 60, run.Outcome{})
	s.outcome("r", 70, run.Outcome{})
}

// heldToolRun is toolRun with two messages before the second start: an entry
// that holds the tool run for a person, and the person's settlement.
func (s *history) heldToolRun(onUnknown run.OnUnknown, as run.SettleAs) {
	s.toolRun(run.Attempt{ID: "first"}, onUnknown)
	r := s.run("r-1-0")
	s.put("held", 42, r.Log(), &run.Entry{
		Index: 2, Kind: run.EntryHeld, Trigger: 30, Seen: 40, Worker: "w2", Until: deadline,
		End: &run.End{Kind: run.KindUnknown, Text: "who knows"},
	})
	key, err := subjects.ParseKey("k")
	if err != nil {
		s.tb.Fatal(err)
	}
	s.put("settlement", 44, r.Settle(key), run.Settlement{Attempt: "first", As: as})
	second := s.entryNamed("start second")
	second.Index, second.Trigger, second.Seen = 3, 44, 44
}

// toolRuns makes a history in which the root makes two calls of a tool that
// only reads.
func (s *history) toolRuns() {
	clear(s.ms)
	s.call("r", 10, deadline)
	paths := []string{"r-1-0", "r-1-1"}
	e := s.turn("r", 1, 20, 10, deadline, paths...)
	for i := range paths {
		e.Answer.ToolCalls[i] = provider.NewToolCall(strconv.Itoa(i), "look", []byte(`{}`))
		e.Calls[i] = run.Call{Op: run.OpTool, Agent: s.agents[paths[i]], Effect: run.ToolReads, Deadline: deadline}
	}
	for i, path := range paths {
		seq := uint64(30 + 10*i)
		s.call(path, seq, deadline).body = s.inputOf(i)
		s.ms["call "+path].Subject = s.run(path).ToolCall()
		s.outcome(path, seq+20, run.Outcome{})
	}
	s.outcome("r", 70, run.Outcome{})
}

// ended stores the end of a run on its log.
func (s *history) ended(path string, index int, seq, trigger uint64) *run.Entry {
	e := &run.Entry{
		Index:   index,
		Kind:    run.EntryEnded,
		Trigger: trigger,
		Seen:    trigger,
		Worker:  "w1",
		End:     &run.End{Kind: run.KindCancelled},
	}
	s.put("end "+path, seq, s.run(path).Log(), e)
	return e
}

// outcome stores the outcome of a run. It is completed unless o has a status.
func (s *history) outcome(path string, seq uint64, o run.Outcome) {
	r := s.run(path)
	o.Status = cmp.Or(o.Status, run.StatusCompleted)
	o.Agent, o.Tree, o.Path, o.Worker = r.Agent.String(), "T", path, "w1"
	subject := space.Result(r.Agent, r.Tree)
	if up, turn, index, below := r.Path.Parent(); below {
		subject = s.run(up.String()).Reply(turn, index)
	}
	s.put("outcome "+path, seq, subject, &o)
}

// cancel stores a run's cancel message.
func (s *history) cancel(path string, seq uint64) {
	s.put("cancel "+path, seq, s.run(path).Cancel(), run.End{Kind: run.KindCancelled})
}

// seq returns the sequence of the message with a name.
func (s *history) seq(name string) uint64 {
	if s.ms[name] == nil {
		s.tb.Fatalf("no message %s", name)
	}
	return s.ms[name].Seq
}

// entryNamed returns the log entry in the message with a name.
func (s *history) entryNamed(name string) *run.Entry {
	e, ok := s.ms[name].body.(*run.Entry)
	if !ok {
		s.tb.Fatalf("message %s is no log entry", name)
	}
	return e
}

// outcomeNamed returns the outcome in the message with a name.
func (s *history) outcomeNamed(name string) *run.Outcome {
	o, ok := s.ms[name].body.(*run.Outcome)
	if !ok {
		s.tb.Fatalf("message %s is no outcome", name)
	}
	return o
}

// drop deletes the messages with names.
func (s *history) drop(names ...string) {
	for _, name := range names {
		s.seq(name)
		delete(s.ms, name)
	}
}

// messages returns the messages in the order of the stream.
func (s *history) messages() []verify.Message {
	var out []verify.Message
	bySeq := func(a, b *message) int { return cmp.Compare(a.Seq, b.Seq) }
	for _, m := range slices.SortedFunc(maps.Values(s.ms), bySeq) {
		if raw, ok := m.body.(string); ok {
			m.Body = []byte(raw)
		} else if body, err := json.Marshal(m.body); err != nil {
			s.tb.Fatal(err)
		} else {
			m.Body = body
		}
		m.Header = func(name string) string { return m.header[name] }
		out = append(out, m.Message)
	}
	return out
}

// newHistory is a tree with all kinds of ends. The lead calls two runs, and one
// of them calls a third that does not answer in time. In its second turn the
// lead calls a run that is cancelled with the run below it. All runs end.
//
//	r lead ── r-1-0 a
//	       ├─ r-1-1 b ── r-1-1-1-0 c (the timer of b's turn fires first)
//	       └─ r-2-0 d ── r-2-0-1-0 c (d is cancelled while c works)
func newHistory(tb testing.TB) *history {
	tb.Helper()
	s := &history{tb: tb, ms: map[string]*message{}, agents: map[string]string{
		"r": "lead", "r-1-0": "a", "r-1-1": "b", "r-1-1-1-0": "c", "r-2-0": "d", "r-2-0-1-0": "c",
	}}
	soon := at(160)
	s.call("r", 0, deadline)                                       // 10
	s.put("timer", 0, s.run("r").Timer(0), struct{}{})             // 20
	s.turn("r", 1, 0, s.seq("call r"), deadline, "r-1-0", "r-1-1") // 30
	s.call("r-1-0", 0, deadline)                                   // 40
	s.call("r-1-1", 0, deadline)                                   // 50
	s.turn("r-1-1", 1, 0, s.seq("call r-1-1"), soon, "r-1-1-1-0")  // 60
	s.call("r-1-1-1-0", 0, soon)                                   // 70
	s.outcome("r-1-0", 0, run.Outcome{})                           // 80
	s.put("fired", 170, s.run("r-1-1").Fired(1), struct{}{})
	s.outcome("r-1-1", 180, run.Outcome{})
	s.put("cancel c", 190, s.run("r-1-1-1-0").Cancel(), run.End{Kind: run.KindTimeout})
	s.ended("r-1-1-1-0", 1, 200, 190)
	s.outcome("r-1-1-1-0", 210, run.Outcome{Status: run.StatusFailed, Kind: run.KindTimeout})
	s.turn("r", 2, 220, s.seq("outcome r-1-1"), deadline, "r-2-0")
	s.call("r-2-0", 230, deadline)
	s.turn("r-2-0", 1, 240, 230, deadline, "r-2-0-1-0")
	s.call("r-2-0-1-0", 250, deadline)
	s.cancel("r-2-0", 260)
	s.cancel("r-2-0-1-0", 270)
	s.ended("r-2-0", 2, 280, 260)
	s.outcome(
		"r-2-0",
		290,
		run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled, Error: "no need", CancelsSeen: 260},
	)
	s.ended("r-2-0-1-0", 1, 300, 270)
	s.outcome(
		"r-2-0-1-0",
		310,
		run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled, Error: "from above", CancelsSeen: 270},
	)
	s.outcome("r", 320, run.Outcome{CancelsSeen: 310})
	return s
}

// slack is the Config.Slack of all checkers.
const slack = 5 * time.Second

// report checks the history as of a moment.
func (s *history) report(now time.Time) verify.Report {
	c := verify.New(verify.Config{Slack: slack})
	for _, m := range s.messages() {
		c.Add(m)
	}
	return c.Report(now)
}
