package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// treeModel is the model of agents that levels makes. Its runs make a tree: in
// its first turn a run calls fan children, in its second turn it answers with
// its label and the children's answers in order: L(L.0 L.1).
//
// A run's label is its task. Child i of the run L.1 gets the task L.1.i. A copy
// that L.1 forks of itself by call i of turn t has the label L.1~t-i. So a
// request tells which run it is for, and L.1#2 names the second turn of L.1.
// The answers depend on the conversation alone: a turn that is asked again, by
// any worker, is answered the same.
//
// The fields before mu are set before the first worker starts.
type treeModel struct {
	// fan is the number of children of each run that has any; 2 by default.
	fan int
	// latency is the time that a request takes; a second by default.
	latency time.Duration
	// latencyOf returns the time that a request for a turn takes; nil:
	// latency.
	latencyOf func(turn string) time.Duration
	// override returns another answer than the usual one, or nil for the
	// usual one. A nil override changes no answer.
	override func(worker, turn string) *provider.Response
	// failure returns the error of the n-th request for a turn, from 1;
	// nil: no request fails.
	failure func(turn string, n int) error
	// stopsAt reports whether a run answers at once though it could call
	// children; nil: no run does.
	stopsAt func(label string) bool
	// review makes the answer of a supervisor.
	review func(turn string) *provider.Response
	// submits says that spawned runs end with the tool submit_result
	// instead of a text.
	submits bool
	// forks says that the runs with forkDepth dots in their labels fork
	// their children instead of calling them; see mailTurn.
	forks     bool
	forkDepth int
	// uses names the tools that a run without children uses in a round, from
	// 1; nil: none. See toolRounds.
	uses func(label string, round int) []string
	// waitSeconds is the timeout of each wait for mail; 300 by default.
	waitSeconds int

	mu sync.Mutex
	// askedBy has the workers that asked for each turn, in order.
	askedBy map[string][]string
	// endedAt has the end of the last request for each turn.
	endedAt map[string]time.Time
	// lastRequest has the request for the newest turn of each run, by
	// label.
	lastRequest map[string]lastRequest
}

// lastRequest is the conversation that a run's model was shown.
type lastRequest struct {
	turn     int
	messages []provider.Message
}

// newTreeModel returns a model with the default values.
func newTreeModel() *treeModel {
	return &treeModel{
		fan:         2,
		latency:     time.Second,
		waitSeconds: 300,
		askedBy:     map[string][]string{},
		endedAt:     map[string]time.Time{},
		lastRequest: map[string]lastRequest{},
	}
}

// isLeaf reports whether a run calls no children although it could.
func (m *treeModel) isLeaf(label string) bool { return m.stopsAt != nil && m.stopsAt(label) }

// respond is the script of the model. A run that delegates by slash commands is
// answered like one that calls tools.
func (m *treeModel) respond(ctx context.Context, req *modelRequest) (*provider.Response, error) {
	asTools := slashToCalls(req.Request)
	resp, err := m.respondTools(ctx, asTools, req.worker)
	if err != nil || asTools == req.Request {
		return resp, err
	}
	return callsToSlash(resp), nil
}

// respondTools is respond for a run that calls tools.
func (m *treeModel) respondTools(ctx context.Context, req *provider.Request, w *worker) (*provider.Response, error) {
	label, n := labelAndTurn(req)
	turn := fmt.Sprintf("%s#%d", label, n)
	requests := m.requestBegins(label, n, lastRequest{n, req.Messages}, w.name)
	defer func() {
		// A killed worker's request ended when the worker was killed.
		if !w.isKilled() {
			m.requestEnded(turn)
		}
	}()
	latency := m.latency
	if m.latencyOf != nil {
		latency = m.latencyOf(turn)
	}
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if m.failure != nil {
		if err := m.failure(turn, requests); err != nil {
			return nil, err
		}
	}
	if m.override != nil {
		if resp := m.override(w.name, turn); resp != nil {
			return resp, nil
		}
	}
	delegates := offers(req, "call_agent") || offers(req, "spawn_agents")
	switch {
	case reviewLabel(req.Messages[0].Content) != "":
		return m.review(turn), nil
	case offers(req, "fork"):
		resp := m.mailTurn(req)
		if len(resp.ToolCalls) > 0 {
			// A supervisor never sees two equal turns.
			resp.Content = fmt.Sprintf("acting %d", n)
		}
		return resp, nil
	case delegates && n == 1 && !m.isLeaf(label):
		return m.delegate(req, req.System, label, "delegating"), nil
	case (!delegates || m.isLeaf(label)) && m.uses != nil && len(m.uses(label, 1)) > 0:
		return m.toolRounds(req, label), nil
	}
	return m.finalAnswer(req, label), nil
}

// delegate calls or spawns the children of a run.
func (m *treeModel) delegate(req *provider.Request, agent, label, text string) *provider.Response {
	var cs []provider.ToolCall
	if offers(req, "spawn_agents") {
		cs = append(cs, spawnTasks(agent, label, m.fan))
	} else {
		for i := range m.fan {
			cs = append(cs, call(agent, fmt.Sprintf("%s.%d", label, i)))
		}
	}
	resp := toolTurn(cs...)
	resp.Content = text
	return resp
}

// finalAnswer is the label of a run and the results of its last turn.
func (m *treeModel) finalAnswer(req *provider.Request, label string) *provider.Response {
	var parts []string
	for _, r := range req.Messages[len(req.Messages)-1].ToolResults {
		parts = append(parts, spawnResults(r.Content)...)
	}
	text := label
	if len(parts) > 0 {
		text += "(" + strings.Join(parts, " ") + ")"
	}
	if m.submits && offers(req, "submit_result") {
		return toolTurn(use("submit_result", "result", text))
	}
	return &provider.Response{Content: text, Usage: turnUsage}
}

// turnUsage is the usage of each answer.
var turnUsage = provider.Usage{InputTokens: 10, OutputTokens: 1}

// toolTurn is an answer with tool calls, with the ids c0, c1 …
func toolTurn(cs ...provider.ToolCall) *provider.Response {
	for i := range cs {
		cs[i].ID = fmt.Sprintf("c%d", i)
	}
	return &provider.Response{Content: "acting", ToolCalls: cs, Usage: turnUsage}
}

// offers reports whether a request offers a tool.
func offers(req *provider.Request, tool string) bool {
	return slices.ContainsFunc(req.Tools, func(t provider.Tool) bool { return t.Name == tool })
}

// spawnTasks is one tool call that spawns n children of a label.
func spawnTasks(agent, label string, n int) provider.ToolCall {
	var tasks []map[string]string
	for i := range n {
		tasks = append(tasks, map[string]string{"agent": agent, "task": fmt.Sprintf("%s.%d", label, i)})
	}
	return use("spawn_agents", "tasks", tasks)
}

// spawnResults are the answers in the result of a tool call. Failures of
// spawned runs get the words that call_agent uses, with a1 for any agent.
func spawnResults(content string) (answers []string) {
	var all struct {
		Results []struct {
			Outcome struct {
				Success *struct{ Result string }
				Failure *struct{ Error string }
			}
		} `json:"sub_agent_results"`
	}
	if json.Unmarshal([]byte(content), &all) != nil {
		return []string{content}
	}
	for _, r := range all.Results {
		switch o := r.Outcome; {
		case o.Success != nil:
			answers = append(answers, o.Success.Result)
		case strings.HasPrefix(o.Failure.Error, "budget exceeded"):
			answers = append(answers, "call_agent error: "+o.Failure.Error)
		default:
			answers = append(answers, failedCall("a1", o.Failure.Error))
		}
	}
	return answers
}

// requestBegins records a request for the n-th turn of a run. It returns the
// number of requests for that turn so far.
func (m *treeModel) requestBegins(label string, n int, shown lastRequest, worker string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n >= m.lastRequest[label].turn {
		m.lastRequest[label] = shown
	}
	turn := fmt.Sprintf("%s#%d", label, n)
	m.askedBy[turn] = append(m.askedBy[turn], worker)
	return len(m.askedBy[turn])
}

// requestEnded records that a request for a turn has ended now.
func (m *treeModel) requestEnded(turn string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endedAt[turn] = time.Now()
}

// turnsAsked is the number of different turns that were asked.
func (m *treeModel) turnsAsked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.askedBy)
}

// repeated maps each turn that was asked more than once to the workers.
func (m *treeModel) repeated() map[string][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := maps.Clone(m.askedBy)
	maps.DeleteFunc(out, func(_ string, workers []string) bool { return len(workers) < 2 })
	return out
}

// labelOfTask finds the label in a task or in a text that quotes the task.
func labelOfTask(text string) string {
	i := strings.Index(text, "L")
	if i < 0 {
		return text
	}
	end := strings.IndexFunc(text[i:], func(r rune) bool { return !strings.ContainsRune("L.0123456789", r) })
	if end < 0 {
		return text[i:]
	}
	return text[i : i+end]
}

// answer is the answer of an undisturbed tree of the given depth.
func (m *treeModel) answer(label string, depth int) string {
	if depth == 0 {
		return label
	}
	if m.forks && strings.Count(label, ".") == m.forkDepth {
		return m.forkedAnswer(label, func(label string) string { return m.answer(label, depth-1) })
	}
	var parts []string
	for i := range m.fan {
		parts = append(parts, m.answer(fmt.Sprintf("%s.%d", label, i), depth-1))
	}
	return label + "(" + strings.Join(parts, " ") + ")"
}

// levels makes a chain of n agents a0, a1 … of which each may call the next
// one. Their model is h.tree. The system prompt names the agent to call.
func levels(n int, change ...func(*configs.Agent)) []configs.Agent {
	var out []configs.Agent
	for i := range n {
		a := configs.Agent{
			Name: fmt.Sprintf("a%d", i), Model: "sim/tree", Digest: "d",
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true, MaxDepth: 5},
		}
		if i < n-1 {
			a.SubAgents = []string{fmt.Sprintf("a%d", i+1)}
			a.SystemPrompt = a.SubAgents[0]
		}
		for _, c := range change {
			c(&a)
		}
		out = append(out, a)
	}
	return out
}

// useTreeAgents sets the agents of a tree. Their runs fork where an agent has
// the style mail.
func (h *harness) useTreeAgents(agents []configs.Agent) {
	h.agents = agents
	h.tree.forks = slices.ContainsFunc(agents, func(a configs.Agent) bool {
		return a.Delegation.Has(configs.StyleMail)
	})
}

// forkingToo gives the agents that call others the style mail besides.
func forkingToo(a *configs.Agent) {
	if len(a.SubAgents) > 0 {
		a.Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleMail}
	}
}
