package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/traceparent"
	"github.com/axebus/axe/provider"
)

// scriptedModel answers the requests of an agent's runs.
type scriptedModel func(ctx context.Context, req *modelRequest) (*provider.Response, error)

// setModel replaces an agent's script while workers run.
func (h *harness) setModel(agent string, m scriptedModel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.models[agent] = m
}

// modelRequest is one request to a model, with its circumstances.
type modelRequest struct {
	*provider.Request
	agent  string
	worker *worker
	turn   int // 1 for the run's first turn
	began  time.Time
	// ended is the time of the request's end; zero while it is in flight.
	ended time.Time
	err   error
	// traceparent is the trace context of the request, "" for none.
	traceparent string
}

// text is the first user message.
func (r *modelRequest) text() string { return r.Messages[0].Content }

// task is the first user message without the prefix "Task: ".
func (r *modelRequest) task() string { return strings.TrimPrefix(r.text(), "Task: ") }

// results are the tool results of the newest turn that had any.
func (r *modelRequest) results() []provider.ToolResult {
	for _, m := range slices.Backward(r.Messages) {
		if len(m.ToolResults) > 0 {
			return m.ToolResults
		}
	}
	return nil
}

// workerModel is an agent's model as one worker calls it. It records the
// requests.
type workerModel struct {
	h      *harness
	agent  string
	worker *worker
}

// Send answers by the agent's script. An agent without one answers with its
// name.
func (m workerModel) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	r := &modelRequest{Request: req, agent: m.agent, worker: m.worker, turn: turnOf(req), began: time.Now()}
	r.traceparent = traceparent.Of(ctx)
	m.h.mu.Lock()
	m.h.asks = append(m.h.asks, r)
	answer := m.h.models[m.agent]
	m.h.mu.Unlock()
	if answer == nil {
		answer = says(m.agent)
	}
	resp, err := answer(ctx, r)
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	r.ended = time.Now()
	r.err = err
	return resp, err
}

// turnOf is the number of the turn that a request is for, from 1.
func turnOf(req *provider.Request) int {
	n := 1
	for _, m := range req.Messages {
		if m.Role == provider.Assistant {
			n++
		}
	}
	return n
}

// requests lists the requests for an agent so far, in order; "" is all agents.
func (h *harness) requests(agent string) []modelRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []modelRequest
	for _, r := range h.asks {
		if agent == "" || r.agent == agent {
			out = append(out, *r)
		}
	}
	return out
}

// says answers with a text.
func says(text string) scriptedModel {
	return func(context.Context, *modelRequest) (*provider.Response, error) {
		usage := provider.Usage{InputTokens: 10, OutputTokens: 1, CachedTokens: 2}
		return &provider.Response{Content: text, Usage: usage}, nil
	}
}

// repeats answers with the task.
func repeats(ctx context.Context, req *modelRequest) (*provider.Response, error) {
	return says(req.task())(ctx, req)
}

// joinsResults answers with the tool results of the turn before, each with its
// id: c0=one|c1=two.
func joinsResults(ctx context.Context, req *modelRequest) (*provider.Response, error) {
	var parts []string
	for _, r := range req.results() {
		parts = append(parts, r.CallID+"="+r.Content)
	}
	return says(strings.Join(parts, "|"))(ctx, req)
}

// recites answers with the roles and the texts of all messages.
func recites(ctx context.Context, req *modelRequest) (*provider.Response, error) {
	var all []string
	for _, m := range req.Messages {
		all = append(all, string(m.Role)+": "+m.Content)
	}
	return says(strings.Join(all, "|"))(ctx, req)
}

// fails answers with an error.
func fails(err error) scriptedModel {
	return func(context.Context, *modelRequest) (*provider.Response, error) { return nil, err }
}

// delayed answers like m after a time, unless the request is aborted.
func delayed(d time.Duration, m scriptedModel) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		select {
		case <-time.After(d):
			return m(ctx, req)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// turns answers the n-th turn like the n-th model, and later turns like the
// last one.
func turns(ms ...scriptedModel) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		return ms[min(req.turn, len(ms))-1](ctx, req)
	}
}

// calls answers with tool calls, with the ids c0, c1 …
func calls(cs ...provider.ToolCall) scriptedModel {
	for i := range cs {
		cs[i].ID = fmt.Sprintf("c%d", i)
	}
	return func(context.Context, *modelRequest) (*provider.Response, error) {
		return &provider.Response{
			Content:   "calling",
			ToolCalls: cs,
			Usage:     provider.Usage{InputTokens: 100, OutputTokens: 10, CachedTokens: 20},
		}, nil
	}
}

// splitsTask calls an agent n times. The tasks extend the caller's task, so
// that no two tasks of a tree are equal.
func splitsTask(agent string, n int) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		var cs []provider.ToolCall
		for i := range n {
			cs = append(cs, call(agent, fmt.Sprintf("%s.%d", req.task(), i)))
		}
		return calls(cs...)(ctx, req)
	}
}

// call is a call of an agent with a task.
func call(agent, task string) provider.ToolCall {
	return use("call_agent", "agent", agent, "task", task)
}

// peakConcurrency is the largest number of requests in flight at once.
func peakConcurrency(requests []modelRequest) int {
	most := 0
	for _, a := range requests {
		n := 0
		for _, b := range requests {
			if !b.began.After(a.began) && (b.ended.IsZero() || b.ended.After(a.began)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// repeatedTurns lists the turns for which a model was asked more than once. The
// tasks of the runs must differ.
func repeatedTurns(requests []modelRequest) []string {
	var seen, out []string
	for _, r := range requests {
		key := fmt.Sprintf("%s %q turn %d", r.agent, r.text(), r.turn)
		if slices.Contains(seen, key) {
			out = append(out, key)
		}
		seen = append(seen, key)
	}
	return out
}

// define makes an agent that may call others. Its digest is its name.
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

// sequential makes an agent call its sub-agents one after the other.
func sequential(a *configs.Agent) { a.SubAgentsConf.Parallel = false }

// timeout sets the timeout of an agent's calls.
func timeout(seconds int) func(*configs.Agent) {
	return func(a *configs.Agent) { a.SubAgentsConf.Timeout = seconds }
}

// maxDepth sets an agent's depth limit.
func maxDepth(n int) func(*configs.Agent) {
	return func(a *configs.Agent) { a.SubAgentsConf.MaxDepth = n }
}

// failedCall is the text that a model reads about a sub-agent that failed.
func failedCall(agent, reason string) string {
	return fmt.Sprintf(`Error: sub-agent "%s" failed - %s. You may retry or proceed without this `+
		`result.`, agent, reason)
}

// use is a tool call; arguments are pairs of a name and a value.
func use(name string, arguments ...any) provider.ToolCall {
	values := map[string]any{}
	for i := 0; i < len(arguments); i += 2 {
		values[arguments[i].(string)] = arguments[i+1]
	}
	raw, err := json.Marshal(values)
	if err != nil {
		panic(err) // plain values always marshal
	}
	return useJSON(name, string(raw))
}

// useJSON is a tool call with arguments that are JSON already.
func useJSON(name, arguments string) provider.ToolCall {
	return provider.NewToolCall("", name, []byte(arguments))
}
