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

// cast is a server that speaks for the models of all agents: a request is for
// the agent that its model is named after. It keeps what it is asked, and
// checks each request against the format and against what it has said before.
type cast struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	parts map[string]part
	asked []*ask
	// "ask NAME" and "answer NAME", as they happened
	events []string
}

// part is what an agent's model says. It runs in the request's own goroutine
// and may take its time.
type part func(*ask) reply

// ask is one request.
type ask struct {
	agent   string
	format  string // openai, anthropic or ollama
	turn    int    // 1 for the first
	key     string // that came with it
	request provider.Request
	// there is a key "tools" at all
	offered bool
	// closed when the client does not wait any more
	gone <-chan struct{}
	// closed when the server has done with it
	over chan struct{}
	said reply
	// the client left before it was answered
	aborted bool
}

// reply is an answer: a status other than 200 with a message and the seconds to
// wait, or text, calls, or both.
type reply struct {
	text    string
	calls   []provider.ToolCall
	status  int
	message string
	later   string // Retry-After
}

// What answers cost: those with calls, and others.
const (
	callsIn, callsOut = 100, 10
	textIn, textOut   = 20, 3
)

// tokens is what the answer cost.
func (r reply) tokens() (in, out int) {
	if len(r.calls) > 0 {
		return callsIn, callsOut
	}
	return textIn, textOut
}

func newCast(t *testing.T) *cast {
	t.Helper()
	c := &cast{t: t, parts: map[string]part{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *cast) plays(agent string, p part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[agent] = p
}

// ServeHTTP has the agent's part answer.
func (c *cast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := formats[r.URL.Path]
	body, err := io.ReadAll(r.Body)
	if !ok || err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s of type %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
		http.Error(w, "what is this?", http.StatusTeapot)
		return
	}
	a := &ask{format: f.name, gone: r.Context().Done(), over: make(chan struct{})}
	defer close(a.over)
	if err := f.read(a, r.Header, body); err != nil {
		c.t.Errorf("%s: %v in %s", f.name, err, body)
	}
	a.agent = a.request.Model
	a.turn = (len(a.request.Messages) + 1) / 2
	p := c.take(a)
	if p == nil {
		c.t.Errorf("a request for the model %q, which has no part", a.agent)
		http.Error(w, "no part", http.StatusNotFound)
		return
	}
	said := p(a)
	for i := range said.calls { // a provider names its calls
		said.calls[i].ID = f.id(a, i)
	}
	c.note("answer "+a.agent, func() {
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

// take keeps a request and returns who is to answer it.
func (c *cast) take(a *ask) part {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check(a)
	c.asked = append(c.asked, a)
	c.events = append(c.events, "ask "+a.agent)
	return c.parts[a.agent]
}

func (c *cast) note(event string, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.events = append(c.events, event)
}

// check wants a conversation: the user's message, then what this server has
// said itself and as many results, in order. What was said before is sent again
// as it was.
func (c *cast) check(a *ask) {
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
		c.t.Errorf("%s: a list of no tools", a.agent)
	}
	if a.turn == 1 {
		return
	}
	n := len(msgs)
	before := slices.IndexFunc(c.asked, func(b *ask) bool {
		return b.agent == a.agent && b.turn == a.turn-1 && b.said.text == msgs[n-2].Content &&
			reflect.DeepEqual(b.said.calls, msgs[n-2].ToolCalls) && reflect.DeepEqual(b.request.Messages, msgs[:n-2])
	})
	if before < 0 {
		c.t.Errorf("%s: turn %d does not go on from any before it:\n%+v", a.agent, a.turn, msgs)
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
		c.t.Errorf("%s: results of turn %d:\n%s", a.agent, a.turn, diff)
	}
}

// asks are the requests for an agent so far, for all if the name is empty.
func (c *cast) asks(agent string) []*ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*ask
	for _, a := range c.asked {
		if agent == "" || a.agent == agent {
			out = append(out, a)
		}
	}
	return out
}

// first is the first request for an agent.
func (c *cast) first(agent string) *ask {
	c.t.Helper()
	return c.nth(agent, 1)
}

// nth is the n-th request for an agent.
func (c *cast) nth(agent string, n int) *ask {
	c.t.Helper()
	asks := c.asks(agent)
	if len(asks) < n {
		c.t.Fatalf("%s was asked %d times, not %d", agent, len(asks), n)
	}
	return asks[n-1]
}

// times wants an agent to have been asked so often.
func (c *cast) times(agent string, n int) {
	c.t.Helper()
	if got := len(c.asks(agent)); got != n {
		c.t.Errorf("%s was asked %d times, want %d", agent, got, n)
	}
}

// leaves wants that the client left a request unanswered.
func (c *cast) leaves(a *ask) {
	c.t.Helper()
	select {
	case <-a.over:
	case <-time.After(patience):
		c.t.Fatalf("the request for %s is still open", a.agent)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.aborted {
		c.t.Errorf("the request for %s was not aborted", a.agent)
	}
}

// happened are the events so far.
func (c *cast) happened() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// user is the first message.
func (a *ask) user() string { return a.request.Messages[0].Content }

// results are those of the turn before.
func (a *ask) results() []provider.ToolResult {
	return a.request.Messages[len(a.request.Messages)-1].ToolResults
}

// toolCall is a call of a tool; the model numbers its calls itself.
func toolCall(name string, args map[string]string) provider.ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return provider.NewToolCall("", name, raw)
}

// answers says something.
func answers(text string) part { return func(*ask) reply { return reply{text: text} } }

// calls calls tools.
func calls(tcs ...provider.ToolCall) part {
	return func(*ask) reply { return reply{calls: slices.Clone(tcs)} }
}

// refuses fails.
func refuses(status int, message string) part {
	return func(*ask) reply { return reply{status: status, message: message} }
}

// stalls says nothing until the client has left.
func stalls(a *ask) reply {
	<-a.gone
	return reply{}
}

// joins answers with the results of the turn before.
func joins(a *ask) reply {
	var texts []string
	for _, r := range a.results() {
		texts = append(texts, r.Content)
	}
	return reply{text: strings.Join(texts, " | ")}
}

// inTurn plays one part after the other, a turn each; the last one goes on.
func inTurn(parts ...part) part {
	return func(a *ask) reply { return parts[min(a.turn, len(parts))-1](a) }
}

// delegates makes calls, then answers with their results.
func delegates(tcs ...provider.ToolCall) part { return inTurn(calls(tcs...), joins) }
