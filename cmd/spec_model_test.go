package cmd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// modelServer answers for the models of all agents. The model of a request is
// named after its agent. The server records each request, and checks it against
// the format and against its own earlier answers.
type modelServer struct {
	t   *testing.T
	url string

	mu        sync.Mutex
	behaviors map[string]behavior
	asked     []*modelRequest
	// events holds "ask NAME" and "answer NAME" in order.
	events []string
}

// behavior makes the answer of an agent's model. It runs in the request's own
// goroutine and may block.
type behavior func(*modelRequest) reply

// modelRequest is one request.
type modelRequest struct {
	agent   string
	format  string // openai, anthropic or ollama
	turn    int    // 1 for the first
	key     string // the API key in its headers
	request provider.Request
	// offered is set if the request has the key "tools".
	offered bool
	// gone is closed when the client has left.
	gone <-chan struct{}
	// over is closed when the server has finished the request.
	over chan struct{}
	// said is the answer. It is set when the behavior has returned.
	said reply
	// aborted is set if the client left before the answer.
	aborted bool
}

// reply is an answer: an error status with a message and the seconds to wait,
// or a text, calls, or both.
type reply struct {
	text    string
	calls   []provider.ToolCall
	status  int
	message string
	later   string // Retry-After
}

// The tokens of an answer with calls, and of any other answer.
const (
	callsIn, callsOut = 100, 10
	textIn, textOut   = 20, 3
)

// tokens returns the tokens of the answer.
func (r reply) tokens() (in, out int) {
	if len(r.calls) > 0 {
		return callsIn, callsOut
	}
	return textIn, textOut
}

// newModelServer starts a model server, which ends with its test.
func newModelServer(t *testing.T) *modelServer {
	t.Helper()
	c := &modelServer{t: t, behaviors: map[string]behavior{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// handle sets the behavior of an agent's model.
func (c *modelServer) handle(agent string, p behavior) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behaviors[agent] = p
}

// ServeHTTP answers with the agent's behavior.
func (c *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := formats[r.URL.Path]
	body, err := io.ReadAll(r.Body)
	if !ok || err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s of type %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
		http.Error(w, "unknown request", http.StatusTeapot)
		return
	}
	a := &modelRequest{format: f.name, gone: r.Context().Done(), over: make(chan struct{})}
	defer close(a.over)
	if err := f.read(a, r.Header, body); err != nil {
		c.t.Errorf("%s: %v in %s", f.name, err, body)
	}
	a.agent = a.request.Model
	a.turn = (len(a.request.Messages) + 1) / 2
	p := c.record(a)
	if p == nil {
		c.t.Errorf("got a request for the model %q, which has no behavior", a.agent)
		http.Error(w, "no behavior", http.StatusNotFound)
		return
	}
	said := p(a)
	for i := range said.calls { // A provider sets the ids.
		said.calls[i].ID = f.id(a, i)
	}
	c.logEvent("answer "+a.agent, func() {
		a.said, a.aborted = said, r.Context().Err() != nil
	})
	if a.aborted {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if said.later != "" {
		w.Header().Set("Retry-After", said.later)
	}
	if said.status != 0 {
		w.WriteHeader(said.status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": said.message}})
		return
	}
	_ = json.NewEncoder(w).Encode(f.write(a.agent, said))
}

// record stores a request and returns the behavior that answers it.
func (c *modelServer) record(a *modelRequest) behavior {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check(a)
	c.asked = append(c.asked, a)
	c.events = append(c.events, "ask "+a.agent)
	return c.behaviors[a.agent]
}

// logEvent records an event, and makes a change under the same lock.
func (c *modelServer) logEvent(event string, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.events = append(c.events, event)
}

// check expects a conversation: the user's message, then this server's earlier
// answers, each with as many results as calls, in order and unchanged.
func (c *modelServer) check(a *modelRequest) {
	msgs := a.request.Messages
	for i, m := range msgs {
		want := provider.User
		if i > 0 {
			want = []provider.Role{provider.ToolRole, provider.Assistant}[i%2]
		}
		if m.Role != want {
			c.t.Errorf("%s: message %d is from %s, want %s", a.agent, i, m.Role, want)
			return
		}
	}
	if a.offered != (len(a.request.Tools) > 0) {
		c.t.Errorf("%s: the key tools has an empty list", a.agent)
	}
	if a.turn == 1 {
		return
	}
	n := len(msgs)
	before := slices.IndexFunc(c.asked, func(b *modelRequest) bool {
		return b.agent == a.agent && b.turn == a.turn-1 && b.said.text == msgs[n-2].Content &&
			reflect.DeepEqual(b.said.calls, msgs[n-2].ToolCalls) && reflect.DeepEqual(b.request.Messages, msgs[:n-2])
	})
	if before < 0 {
		c.t.Errorf("%s: turn %d does not continue an earlier turn:\n%+v", a.agent, a.turn, msgs)
		return
	}
	var want, got []string
	for _, tc := range msgs[n-2].ToolCalls {
		want = append(want, tc.ID)
	}
	for _, r := range msgs[n-1].ToolResults {
		got = append(got, r.CallID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("%s: results in turn %d (-want +got):\n%s", a.agent, a.turn, diff)
	}
}

// requests returns the requests for an agent so far, or for all agents if the
// name is empty.
func (c *modelServer) requests(agent string) []*modelRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*modelRequest
	for _, a := range c.asked {
		if agent == "" || a.agent == agent {
			out = append(out, a)
		}
	}
	return out
}

// firstRequest returns the first request for an agent.
func (c *modelServer) firstRequest(agent string) *modelRequest {
	c.t.Helper()
	return c.nthRequest(agent, 1)
}

// nthRequest returns the n-th request for an agent.
func (c *modelServer) nthRequest(agent string, n int) *modelRequest {
	c.t.Helper()
	asks := c.requests(agent)
	if len(asks) < n {
		c.t.Fatalf("%s was asked %d times, want %d times or more", agent, len(asks), n)
	}
	return asks[n-1]
}

// wantRequests expects n requests for an agent.
func (c *modelServer) wantRequests(agent string, n int) {
	c.t.Helper()
	if got := len(c.requests(agent)); got != n {
		c.t.Errorf("%s was asked %d times, want %d", agent, got, n)
	}
}

// wantAborted waits for the end of a request, and expects that the client left
// before the answer.
func (c *modelServer) wantAborted(a *modelRequest) {
	c.t.Helper()
	select {
	case <-a.over:
	case <-time.After(waitTimeout):
		c.t.Fatalf("the request for %s is still open", a.agent)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.aborted {
		c.t.Errorf("the request for %s was not aborted", a.agent)
	}
}

// eventLog returns the events so far.
func (c *modelServer) eventLog() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// user returns the text of the first message.
func (a *modelRequest) user() string { return a.request.Messages[0].Content }

// results returns the results in the last message.
func (a *modelRequest) results() []provider.ToolResult {
	return a.request.Messages[len(a.request.Messages)-1].ToolResults
}

// toolCall makes a tool call without an id. The model server numbers the calls.
func toolCall(name string, args map[string]string) provider.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return provider.NewToolCall("", name, raw)
}

// answers is a model that answers with a text.
func answers(text string) behavior { return func(*modelRequest) reply { return reply{text: text} } }

// calls is a model that calls tools in every turn.
func calls(tcs ...provider.ToolCall) behavior {
	return func(*modelRequest) reply { return reply{calls: slices.Clone(tcs)} }
}

// refuses is a model of a provider that answers with an error status.
func refuses(status int, message string) behavior {
	return func(*modelRequest) reply { return reply{status: status, message: message} }
}

// stalls is a model that does not answer until the client has left.
func stalls(a *modelRequest) reply {
	<-a.gone
	return reply{}
}

// joinsResults is a model that answers with the results of the turn before.
func joinsResults(a *modelRequest) reply {
	var texts []string
	for _, r := range a.results() {
		texts = append(texts, r.Content)
	}
	return reply{text: strings.Join(texts, " | ")}
}

// inOrder uses one behavior for each turn. The last behavior is used for all
// further turns.
func inOrder(turns ...behavior) behavior {
	return func(a *modelRequest) reply { return turns[min(a.turn, len(turns))-1](a) }
}

// delegates is a model that makes calls, then answers with their results.
func delegates(tcs ...provider.ToolCall) behavior { return inOrder(calls(tcs...), joinsResults) }
