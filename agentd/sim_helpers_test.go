package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// stage is a sim whose agents play parts: one function for each agent's model.
// It keeps a record of every request to a model.
type stage struct {
	*sim
	parts map[string]part
	hands []*hand

	mu   sync.Mutex
	asks []*asked
}

// part answers for the model of an agent.
type part func(ctx context.Context, a *asked) (*provider.Response, error)

// plays changes the part of an agent while workers are at work.
func (s *stage) plays(agent string, p part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[agent] = p
}

// asked is one request to a model.
type asked struct {
	agent, worker string
	turn          int
	req           *provider.Request
	// to is zero while it is in flight
	from, to time.Time
	err      error
}

// text is the first user message.
func (a *asked) text() string { return a.req.Messages[0].Content }

// results are those of the last turn that had any.
func (a *asked) results() []provider.ToolResult {
	for _, m := range slices.Backward(a.req.Messages) {
		if len(m.ToolResults) > 0 {
			return m.ToolResults
		}
	}
	return nil
}

// onStage runs fn in a bubble of its own and ends all workers afterwards.
func onStage(t *testing.T, fn func(s *stage)) {
	t.Helper()
	onStageOver(t, *partitions, fn)
}

// onStageOver is the same with so many streams of runs.
func onStageOver(t *testing.T, parts int, fn func(s *stage)) {
	t.Helper()
	bubbleOver(t, parts, func(s *sim) {
		st := &stage{sim: s, parts: map[string]part{}}
		defer func() {
			for _, h := range st.hands {
				h.kill()
				if h.gone {
					continue
				}
				if err := <-h.ended; err != nil {
					s.tb.Logf("%s ended: %v", h.name, err)
				}
			}
		}()
		fn(st)
	})
}

// hand is a worker on a stage.
type hand struct {
	*proc
	*agentd.Worker
	gone bool // ended was read
}

// engagement says how a worker is hired.
type engagement struct {
	agentd.Config
	agents  []configs.Agent // nil: those of the stage
	maxBody int64           // of its connection
	ackWait time.Duration   // of its connection
	// of its connection; beats do not come here
	intercept func(bus.Point) error
	// called when it is about to ask a model; it may take its time
	opening func()
	// it gives no sign of life while that is set
	mute *atomic.Bool
}

// hire runs a worker.
func (s *stage) hire(name string, e engagement) *hand {
	ctx, stop := context.WithCancel(s.ctx)
	h := &hand{proc: &proc{name: name, stop: stop, ended: make(chan error, 1)}}
	h.conn = s.open(bus.Config{MaxBody: e.maxBody, AckWait: e.ackWait, Intercept: func(at bus.Point) error {
		h.mu.Lock()
		dead := h.dead
		h.mu.Unlock()
		switch {
		case dead:
			return errKilled
		case at.Op == "beat" && e.mute != nil && e.mute.Load():
			return errKilled
		case at.Op == "beat" || e.intercept == nil:
			return nil
		}
		return e.intercept(at)
	}})
	if e.Grace == 0 {
		e.Grace = time.Minute
	}
	e.Name = name
	e.Open = func(model string) (provider.Provider, string, error) {
		if e.opening != nil {
			e.opening()
		}
		agent := strings.TrimPrefix(model, "sim/")
		return actor{s, agent, name}, agent, nil
	}
	var err error
	if h.Worker, err = agentd.New(h.conn, e.Config); err != nil {
		s.tb.Fatal(err)
	}
	if e.agents == nil {
		e.agents = s.agents
	}
	h.serve(s, e.agents...)
	go func() { h.ended <- h.Run(ctx) }()
	s.hands = append(s.hands, h)
	return h
}

// settle lets the workers hired so far announce their agents and ask for work.
func (s *stage) settle() { time.Sleep(2 * time.Second) }

// serve sets the worker's agents.
func (h *hand) serve(s *stage, agents ...configs.Agent) {
	if err := h.Serve(agents); err != nil {
		s.tb.Fatal(err)
	}
}

// leave drains the worker and waits for its end.
func (h *hand) leave(s *stage) {
	h.gone = true
	if err := h.drain(); err != nil {
		s.tb.Errorf("drain of %s: %v", h.name, err)
	}
}

// actor is an agent's model as a worker sees it.
type actor struct {
	s             *stage
	agent, worker string
}

// Send plays the agent's part; an agent without one says its own name.
func (c actor) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	a := &asked{agent: c.agent, worker: c.worker, turn: turnOf(req), req: req, from: time.Now()}
	c.s.mu.Lock()
	c.s.asks = append(c.s.asks, a)
	play := c.s.parts[c.agent]
	c.s.mu.Unlock()
	if play == nil {
		play = says(c.agent)
	}
	resp, err := play(ctx, a)
	c.s.mu.Lock()
	a.to, a.err = time.Now(), err
	c.s.mu.Unlock()
	return resp, err
}

// asked lists the requests made so far for an agent, "" for all, in order.
func (s *stage) asked(agent string) []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []asked
	for _, a := range s.asks {
		if agent == "" || a.agent == agent {
			out = append(out, *a)
		}
	}
	return out
}

// says answers with a text.
func says(text string) part {
	return func(context.Context, *asked) (*provider.Response, error) {
		return &provider.Response{
			Content: text,
			Usage:   provider.Usage{InputTokens: 10, OutputTokens: 1, CachedTokens: 2},
		}, nil
	}
}

// repeats answers with the first user message.
func repeats(ctx context.Context, a *asked) (*provider.Response, error) {
	return says(strings.TrimPrefix(a.text(), "Task: "))(ctx, a)
}

// sums answers with the results of the turn before, each with its id.
func sums(ctx context.Context, a *asked) (*provider.Response, error) {
	var parts []string
	for _, r := range a.results() {
		parts = append(parts, r.CallID+"="+r.Content)
	}
	return says(strings.Join(parts, "|"))(ctx, a)
}

// fails is a model that does not work.
func fails(err error) part {
	return func(context.Context, *asked) (*provider.Response, error) { return nil, err }
}

// after plays a part when a time is over, unless the request is aborted.
func after(d time.Duration, p part) part {
	return func(ctx context.Context, a *asked) (*provider.Response, error) {
		select {
		case <-time.After(d):
			return p(ctx, a)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// turns plays one part after another, and the last one again and again.
func turns(ps ...part) part {
	return func(ctx context.Context, a *asked) (*provider.Response, error) {
		return ps[min(a.turn, len(ps))-1](ctx, a)
	}
}

// calls is a turn with tool calls, with the ids c0, c1 …
func calls(cs ...provider.ToolCall) part {
	for i := range cs {
		cs[i].ID = fmt.Sprintf("c%d", i)
	}
	return func(context.Context, *asked) (*provider.Response, error) {
		return &provider.Response{
			Content:   "calling",
			ToolCalls: cs,
			Usage:     provider.Usage{InputTokens: 100, OutputTokens: 10, CachedTokens: 20},
		}, nil
	}
}

// splits calls an agent n times, with tasks that extend its own, so that no two
// in a tree are equal.
func splits(agent string, n int) part {
	return func(ctx context.Context, a *asked) (*provider.Response, error) {
		var cs []provider.ToolCall
		for i := range n {
			cs = append(cs, call(agent, fmt.Sprintf("%s.%d", strings.TrimPrefix(a.text(), "Task: "), i)))
		}
		return calls(cs...)(ctx, a)
	}
}

// call is a call of an agent with a task.
func call(agent, task string) provider.ToolCall {
	return toolCall("call_agent", map[string]string{"agent": agent, "task": task})
}

func toolCall(name string, args map[string]string) provider.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	return provider.NewToolCall("", name, raw)
}

// define makes an agent that may call others. Its digest tells its definitions
// apart.
func define(name string, subs []string, change ...func(*configs.Agent)) configs.Agent {
	a := configs.Agent{
		Name: name, Model: "sim/" + name, Digest: name, SubAgents: subs,
		SubAgentsConf: configs.SubAgentsConfig{Parallel: true, MaxDepth: 5},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func sequential(a *configs.Agent) { a.SubAgentsConf.Parallel = false }

func timeout(seconds int) func(*configs.Agent) {
	return func(a *configs.Agent) { a.SubAgentsConf.Timeout = seconds }
}

func maxDepth(n int) func(*configs.Agent) {
	return func(a *configs.Agent) { a.SubAgentsConf.MaxDepth = n }
}

// failedCall is what a model reads of a sub-agent that failed.
func failedCall(agent, why string) string {
	return fmt.Sprintf(`Error: sub-agent "%s" failed - %s. You may retry or proceed without this result.`, agent, why)
}

// root makes the address of a tree that is not submitted yet.
func (s *stage) root(agent string) subjects.Run {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		s.tb.Fatal(err)
	}
	id, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		s.tb.Fatal(err)
	}
	return s.conn.Space().Run(a, id, subjects.Root)
}

// child is the address of the run of a call in the first turn.
func (s *stage) child(r subjects.Run, agent string, index int) subjects.Run {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		s.tb.Fatal(err)
	}
	return r.Space.Run(a, r.Tree, r.Path.Child(1, index))
}

// send submits a task to the address of a root, with headers.
func (s *stage) send(r subjects.Run, text string, header ...[2]string) {
	s.write(bus.Message{Subject: r.Space.Submit(r.Agent, r.Tree), Header: header, Body: []byte(text)})
}

func (s *stage) write(m bus.Message) {
	if _, err := s.conn.Write(s.ctx, m); err != nil {
		s.tb.Fatal(err)
	}
}

// pub publishes as `nats pub` does: no headers, no fence.
func (s *stage) pub(subject, body string) {
	if err := s.conn.PublishEphemeral(subject, []byte(body)); err != nil {
		s.tb.Fatal(err)
	}
}

// all reads every message that a subject or filter matches.
func (s *stage) all(filter string) []bus.Stored {
	ms, err := s.conn.ReadByScan(s.ctx, filter, 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	return ms
}

// entries reads the log of a run.
func (s *stage) entries(r subjects.Run) []run.Entry {
	var out []run.Entry
	for _, m := range s.all(r.Log()) {
		e, err := run.DecodeEntry(m.Body)
		if err != nil {
			s.tb.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// outcomes reads what is stored at a reply subject.
func (s *stage) outcomes(subject string) []run.Outcome {
	var out []run.Outcome
	for _, m := range s.all(subject) {
		o, err := run.DecodeOutcome(m.Body)
		if err != nil {
			s.tb.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// completed waits for a tree's answer and checks it.
func (s *stage) completed(r subjects.Run, want string) run.Outcome {
	o := s.result(r, 30*time.Minute)
	if o.Status != run.StatusCompleted || o.Result != want {
		s.tb.Errorf("%s: outcome %s %s %q\n got %s\nwant %s", r, o.Status, o.Kind, o.Error, o.Result, want)
	}
	return o
}

// failed waits for a tree's bad end and checks it.
func (s *stage) failed(r subjects.Run, kind run.Kind, text string) {
	o := s.result(r, 30*time.Minute)
	if o.Status != run.StatusFailed || o.Kind != kind || o.Error != text {
		s.tb.Errorf("%s: outcome %s %s %q %q\nwant %s %q", r, o.Status, o.Kind, o.Error, o.Result, kind, text)
	}
}

// eventually waits, in virtual time, until something is so.
func (s *stage) eventually(what string, so func() bool) {
	for began := time.Now(); !so(); time.Sleep(lull(began, 10*time.Millisecond)) {
		if time.Since(began) > time.Minute {
			s.tb.Fatalf("not within a minute: %s", what)
		}
	}
}

// asking waits until so many requests for an agent have been made.
func (s *stage) asking(agent string, n int) {
	s.eventually(fmt.Sprintf("%d requests for %s", n, agent), func() bool { return len(s.asked(agent)) >= n })
}

// buried returns the reasons of a run's dead letters.
func (s *stage) buried(filter string) []string {
	var out []string
	for _, m := range s.all(filter) {
		out = append(out, m.Header.Get("Axe-Reason"))
	}
	return out
}

// within checks how long something took, in virtual time.
func (s *stage) within(from time.Time, limit time.Duration) {
	if d := time.Since(from); d > limit {
		s.tb.Errorf("it took %v, more than %v", d, limit)
	}
}

// peak is how many of the requests were in flight at once.
func peak(asks []asked) int {
	most := 0
	for _, a := range asks {
		n := 0
		for _, b := range asks {
			if !b.from.After(a.from) && (b.to.IsZero() || b.to.After(a.from)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// twice lists the turns that were asked more than once. Tasks have to differ.
func twice(asks []asked) []string {
	var seen, out []string
	for _, a := range asks {
		key := fmt.Sprintf("%s %q turn %d", a.agent, a.text(), a.turn)
		if slices.Contains(seen, key) {
			out = append(out, key)
		}
		seen = append(seen, key)
	}
	return out
}

var errBroken = errors.New("the bus is broken on purpose")
