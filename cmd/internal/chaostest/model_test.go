package chaostest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"sync"
	"time"
)

// modelRequest is one request to the model.
type modelRequest struct {
	worker     string
	begin, end time.Time
	// left is the time at which the worker closed the request without an
	// answer.
	left time.Time
}

// model is a model over HTTP, in the format of Ollama. It answers after a
// latency and records each request with its worker and time. The path of a
// request begins with the worker's name.
type model struct {
	latency time.Duration
	// hangs says which runs the model never answers; nil: none.
	hangs func(label string) bool
	mu    sync.Mutex
	asks  map[turnKey][]*modelRequest
	asked int
}

func newModel(latency time.Duration) *model {
	return &model{latency: latency, asks: map[turnKey][]*modelRequest{}}
}

// parsedRequest is a request as the model reads it.
type parsedRequest struct {
	// label is the first line of the run's task. It names the run within
	// all trees.
	label string
	turn  int
	// sub is the system prompt. It lists the agents to call, in their
	// order.
	sub     string
	results []string // answers of the called runs
	tools   map[string]bool
	post    forkMemory
}

// parseRequest decodes a request of the model.
func parseRequest(r *http.Request) (parsedRequest, error) {
	var req struct {
		Messages []struct{ Role, Content string }
		Tools    []struct{ Function struct{ Name string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		return parsedRequest{}, err
	}
	q := parsedRequest{turn: 1, tools: map[string]bool{}, post: forkMemory{last: map[string]string{}}}
	for _, t := range req.Tools {
		q.tools[t.Function.Name] = true
	}
	for _, m := range req.Messages {
		switch m.Role {
		case "assistant":
			q.turn++
		case "system":
			q.sub = m.Content
		case "user":
			switch lines := strings.Split(m.Content, "\n"); {
			case q.label == "":
				q.label = strings.TrimPrefix(lines[0], "Task: ")
			case strings.HasPrefix(lines[0], "Results of your commands"):
				q.post.told = false
				for _, line := range lines[1:] {
					q.post.read(line)
				}
			default:
				q.post.told = true
			}
		case "tool":
			q.post.told = false
			q.post.read(m.Content)
			q.results = append(q.results, results(m.Content)...)
		}
	}
	return q, nil
}

// ServeHTTP answers a request after the latency of its turn, or not at all if
// the model hangs for the run. The answer follows from the request alone, so
// each tree has one right answer.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := parseRequest(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	worker, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	key := turnKey{q.label, q.turn}
	a := m.begun(key, worker)
	answered := time.After(m.latencyOf(key))
	if m.hangs != nil && m.hangs(q.label) {
		answered = nil
	}
	select {
	case <-answered:
	case <-r.Context().Done():
		m.mu.Lock()
		a.left = time.Now()
		m.mu.Unlock()
		return
	}
	m.mu.Lock()
	a.end = time.Now()
	m.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{
		"message": q.answer(), "done": true, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 1,
	})
}

// begun records the begin of a request and returns the record.
func (m *model) begun(key turnKey, worker string) *modelRequest {
	a := &modelRequest{worker: worker, begin: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	m.asks[key] = append(m.asks[key], a)
	return a
}

// latencyOf returns the latency of a turn, from half of the model's latency to
// one and a half. It is the same for each request for the turn.
func (m *model) latencyOf(key turnKey) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return m.latency/2 + m.latency*time.Duration(h.Sum32()%1000)/1000
}

// answer delegates three times, with the tools that the run was offered. When
// the run has the results, the answer is its label and the results in order, in
// a call of submit_result if that was offered, otherwise as a text.
func (q parsedRequest) answer() map[string]any {
	text := q.label + "(" + strings.Join(q.results, " ") + ")"
	var tasks []map[string]string
	for i := range width {
		task := map[string]string{"task": fmt.Sprintf("%s.%d", q.label, i)}
		if subs := strings.Fields(q.sub); len(subs) > 0 {
			task["agent"] = subs[i%len(subs)]
		}
		if task["agent"] == "post" && q.writesCommands() {
			task["agent"] = "scribe"
		}
		tasks = append(tasks, task)
	}
	var calls []any
	invoke := func(tool string, arguments any) {
		calls = append(calls, map[string]any{"function": map[string]any{"name": tool, "arguments": arguments}})
	}
	switch {
	case strings.Contains(q.sub, "/slash fork"):
		var lines []string
		text = q.mail(func(tool string, arguments any) { lines = append(lines, slash(tool, arguments)) })
		if len(lines) > 0 {
			text = strings.Join(lines, "\n")
		}
		return map[string]any{"role": "assistant", "content": text}
	case q.tools["run_command"], q.tools["note"]:
		if text = q.useTools(invoke); len(calls) == 0 {
			return map[string]any{"role": "assistant", "content": text}
		}
	case q.tools["fork"]:
		if text = q.mail(invoke); len(calls) == 0 {
			return map[string]any{"role": "assistant", "content": text}
		}
	case q.tools["call_agent"] && len(q.results) == 0:
		for _, t := range tasks {
			invoke("call_agent", t)
		}
	case q.tools["spawn_agents"] && len(q.results) == 0:
		invoke("spawn_agents", map[string]any{"tasks": tasks})
	case q.tools["submit_result"]:
		invoke("submit_result", map[string]string{"result": text})
	default:
		return map[string]any{"role": "assistant", "content": text}
	}
	return map[string]any{"role": "assistant", "content": "", "tool_calls": calls}
}

// results returns the answers in the result of a tool call: one, or one for
// each spawned run.
func results(content string) (all []string) {
	var spawned struct {
		Results []struct {
			Outcome struct {
				Success struct{ Result string }
				Failure struct{ Error string }
			}
		} `json:"sub_agent_results"`
	}
	if json.Unmarshal([]byte(content), &spawned) != nil {
		return []string{content}
	}
	for _, r := range spawned.Results {
		all = append(all, r.Outcome.Success.Result+r.Outcome.Failure.Error)
	}
	return all
}

// turnKey identifies a turn by the label of its run and its number.
type turnKey struct {
	label string
	turn  int
}

func (k turnKey) String() string { return fmt.Sprintf("%s#%d", k.label, k.turn) }

// count returns the number of requests so far.
func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}
