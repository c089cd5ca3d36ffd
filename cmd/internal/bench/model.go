package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/provider"
)

// agents lists the agents that a worker of a benchmark serves: those of the
// workloads, and extra ones. The system prompt of an agent is the script of its
// model: a word and its arguments.
func agents(model string, extra int) []configs.Agent {
	define := func(name, prompt string, subs ...string) configs.Agent {
		return configs.Agent{
			Name: name, Model: model, SystemPrompt: prompt, SubAgents: subs,
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true, MaxDepth: 5},
		}
	}
	all := []configs.Agent{define("leaf", "echo")}
	for _, n := range fans {
		all = append(all, define(fmt.Sprint("fan", n), fmt.Sprint("call leaf ", n), "leaf"))
	}
	all = append(all, define("parent", "call leaf 1", "leaf"))
	for i := range 2 {
		all = append(all, define(twin(i), "echo"), define(parentOf(twin(i)), "call "+twin(i)+" 1", twin(i)))
	}
	for level := range treeDepth {
		below := fmt.Sprint("tree", level+1)
		all = append(all, define(fmt.Sprint("tree", level), fmt.Sprint("call ", below, " ", treeFan), below))
	}
	all = append(all, define(fmt.Sprint("tree", treeDepth), "echo"))
	for _, n := range chains {
		all = append(all, define(fmt.Sprint("chain", n), fmt.Sprint("chain leaf ", n), "leaf"))
	}
	user := define(fmt.Sprint("use", uses), fmt.Sprint("use list_directory ", uses))
	user.Tools = []string{"list_directory"}
	user.Workdir = "/"
	all = append(all, user)
	for i := range extra {
		other := define(fmt.Sprint("other", i), "echo")
		other.Digest = other.Name // as an agent of a file has
		all = append(all, other)
	}
	lead := define("lead", fmt.Sprint("fork ", forks))
	lead.Delegation.Styles = configs.Styles{configs.StyleMail}
	return append(all, lead)
}

// The shapes of the workloads.
var (
	fans   = []int{10, 100, 1000}
	chains = []int{12, 24, 49}
)

const (
	// uses is the number of calls of a tool in a conversation, one a turn. It
	// is one of chains.
	uses = 24

	treeDepth = 3
	treeFan   = 5
	treeRuns  = 1 + treeFan + treeFan*treeFan + treeFan*treeFan*treeFan
	forks     = 100
)

// decide is the model's answer to a request. It is the same on every worker and
// over HTTP.
func decide(req *provider.Request) *provider.Response {
	words := strings.Fields(req.System)
	last := req.Messages[len(req.Messages)-1]
	if len(words) == 0 || words[0] == "echo" || len(req.Tools) == 0 {
		return &provider.Response{Content: last.Content}
	}
	n, _ := strconv.Atoi(words[len(words)-1])
	// The worker appends to the prompt of a run that forks.
	if words[0] == "fork" {
		n, _ = strconv.Atoi(words[1])
	}
	switch answered := len(req.Messages) / 2; {
	case words[0] == "call" && answered == 0:
		return callsOf("call_agent", n, map[string]any{"agent": words[1], "task": "hello"})
	case words[0] == "chain" && answered < n:
		return callsOf("call_agent", 1, map[string]any{"agent": words[1], "task": "hello"})
	case words[0] == "use" && answered < n:
		return callsOf(words[1], 1, map[string]any{"path": "."})
	case words[0] == "fork":
		return forking(req, n)
	}
	return &provider.Response{Content: strconv.Itoa(len(last.ToolResults))}
}

// forking is the model of the agent that forks. Its root forks n runs that
// answer, and one run that waits for mail. No run writes to that one, and the
// root waits for it.
func forking(req *provider.Request, n int) *provider.Response {
	last := req.Messages[len(req.Messages)-1]
	switch task := req.Messages[0].Content; {
	case strings.Contains(task, wakes):
		return &provider.Response{Content: "done"}
	case strings.Contains(task, holds):
		return callsOf("wait", 1, map[string]any{})
	case len(last.ToolResults) > n:
		return callsOf("wait", 1, map[string]any{"from": []string{last.ToolResults[n].Content}})
	}
	resp := callsOf("fork", n+1, map[string]any{"prompt": wakes})
	// Marshalling of strings cannot fail.
	raw, _ := json.Marshal(map[string]any{"prompt": holds})
	resp.ToolCalls[n] = provider.NewToolCall(resp.ToolCalls[n].ID, "fork", raw)
	return resp
}

// The tasks of forks: to answer every message, and to wait for mail.
const (
	wakes = "answer"
	holds = "hold"
)

func callsOf(tool string, n int, arguments map[string]any) *provider.Response {
	// Marshalling of strings cannot fail.
	raw, _ := json.Marshal(arguments)
	resp := &provider.Response{}
	for i := range n {
		resp.ToolCalls = append(resp.ToolCalls, provider.NewToolCall(strconv.Itoa(i), tool, raw))
	}
	return resp
}

// inProcess is the model as a provider inside a worker.
type inProcess struct{ latency time.Duration }

// Send answers after the latency.
func (m inProcess) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	if err := pause.For(ctx, m.latency); err != nil {
		return nil, err
	}
	return decide(req), nil
}

// overHTTP answers as OpenAI's chat completions do
// (platform.openai.com/docs/api-reference/chat), as far as the benchmark's
// agents ask.
type overHTTP struct{ latency time.Duration }

type chatMessage struct {
	Role       provider.Role `json:"role"`
	Content    string        `json:"content"`
	ToolCalls  []chatCall    `json:"tool_calls,omitempty"`
	ToolCallID string        `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// ServeHTTP answers one request.
func (m overHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []chatMessage     `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if pause.For(r.Context(), m.latency) != nil {
		return
	}
	resp := decide(requestOf(in.Messages, len(in.Tools)))
	out := chatMessage{Role: provider.Assistant, Content: resp.Content}
	for _, tc := range resp.ToolCalls {
		c := chatCall{ID: tc.ID, Type: "function"}
		c.Function.Name, c.Function.Arguments = tc.Name, string(tc.Raw)
		out.ToolCalls = append(out.ToolCalls, c)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"model": "bench", "choices": []any{map[string]any{"finish_reason": "stop", "message": out}},
		"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 1},
	})
}

// requestOf makes the request that decide reads. The results of one turn are
// one message.
func requestOf(ms []chatMessage, tools int) *provider.Request {
	req := &provider.Request{Tools: make([]provider.Tool, tools)}
	for _, m := range ms {
		n := len(req.Messages)
		switch {
		case m.Role == "system":
			req.System = m.Content
		case m.Role != provider.ToolRole:
			req.Messages = append(req.Messages, provider.Message{Role: m.Role, Content: m.Content})
		default:
			if n == 0 || req.Messages[n-1].Role != provider.ToolRole {
				req.Messages = append(req.Messages, provider.Message{Role: m.Role})
				n++
			}
			results := &req.Messages[n-1].ToolResults
			*results = append(*results, provider.ToolResult{CallID: m.ToolCallID, Content: m.Content})
		}
	}
	return req
}
