package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/catalog"
	"github.com/axebus/axe/subjects"
)

// patience is the longest wait for an event that has to come.
const patience = 30 * time.Second

// hostile is a text that would run a script in a page that takes it for HTML.
const hostile = `<img src=x onerror="document.title='taken'">`

// scripts has the scripts of the agents' models. The model of the agent gate
// has none: see the type gate.
var scripts = map[string]string{
	"echo": `
[[turn]]
text = 'echo: {{.Task}}'
`,
	"bad": `
[[turn]]
[turn.fail]
category = 'bad_request'
message = 'broken'
`,
	"lead": `
[[turn]]
turn = 1
[[turn.call]]
agent = 'echo'
task = '{{.Task}}'
[[turn.call]]
agent = 'gate'
task = 'x'
[[turn]]
text = 'together: {{(index .Results 0).Content}}, {{(index .Results 1).Content}}'
`,
	"writer": `
[[turn]]
turn = 1
[[turn.call]]
tool = 'write_artifact'
arguments = { name = 'report.html', content = '<script>1</script>' }
[[turn]]
text = 'written'
`,
	"guarded": `
[[turn]]
turn = 1
[[turn.call]]
agent = 'echo'
task = '{{.Task}}'
[[turn]]
text = 'after: {{(index .Results 0).Content}}'
`,
	"wide": `
[[turn]]
turn = 1
[[turn.call]]
repeat = '999'
agent = 'echo'
task = 'part-{{.Index}}'
[[turn]]
text = 'wide'
`,
	"watcher": `
[[turn]]
text = '{"decision": "pause", "reason": "who pays?"}'
`,
}

// gate is a model that answers when it is opened.
type gate struct {
	// asked gets a value for each request.
	asked chan struct{}
	open  chan struct{}
}

// Send waits until the gate is opened, or ctx ends.
func (g *gate) Send(ctx context.Context, _ *provider.Request) (*provider.Response, error) {
	g.asked <- struct{}{}
	select {
	case <-g.open:
		return &provider.Response{Content: "opened"}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// harness is a NATS server with a worker, and a client of it.
//
//	h := newHarness(t)
//	url := h.serve(Config{})
//	h.post(url+"/v1/agents/echo/tasks", "hello")
type harness struct {
	*client.Client
	t    *testing.T
	conn *bus.Conn
	gate *gate
	// stopWorker stops the worker of newHarness.
	stopWorker func()
	// url is that of the server of serve.
	url string
	// token is sent with each request, unless it is empty.
	token string
}

// newHarness starts a NATS server and a worker, until the test ends.
func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, gate: &gate{make(chan struct{}, 100), make(chan struct{})}}
	h.open()
	h.stopWorker = h.startWorker("w1")
	return h
}

// open starts a NATS server without a worker.
func (h *harness) open() {
	h.t.Helper()
	h.conn = testbus.Open(h.t)
	h.Client = client.New(h.conn)
}

// approval is the decision of a person to carry a turn out.
var approval = run.Approval{Approve: true}

// startWorker runs a worker until stop is called or the test ends. It returns
// when the worker is listed and all its agents are announced.
func (h *harness) startWorker(name string) (stop func()) {
	h.t.Helper()
	texts := h.t.TempDir()
	agents := []configs.Agent{{
		Name: "gate", Model: "test/gate", Digest: "gate", Description: hostile,
		SubAgentsConf: configs.SubAgentsConfig{Parallel: true},
	}}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(texts, name+".toml"), []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
		a := configs.Agent{
			Name: name, Description: "About " + name, Model: "script/" + name, SubAgents: []string{"echo", "gate"},
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true}, Digest: name,
		}
		switch name {
		case "guarded":
			a.Supervision = configs.Supervision{Mode: configs.SupervisedHuman, Agent: "watcher", Timeout: time.Hour}
		case "writer":
			a.Tools, a.SubAgents = []string{"write_artifact"}, nil
		}
		agents = append(agents, a)
	}
	models := catalog.New(catalog.Config{ScriptDir: texts})
	return h.startWorkerWith(name, configs.Definitions{Agents: agents},
		func(model string) (provider.Provider, string, error) {
			if model == "test/gate" {
				return h.gate, model, nil
			}
			return models.Open(model)
		})
}

// startWorkerWith is startWorker with other agents and their models.
func (h *harness) startWorkerWith(
	name string, all configs.Definitions, open func(model string) (provider.Provider, string, error),
) (stop func()) {
	h.t.Helper()
	conn := h.conn
	w, err := agentd.New(conn, agentd.Config{Name: name, Grace: time.Second, Open: open})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := w.Serve(all); err != nil {
		h.t.Fatal(err)
	}
	stop = h.background(w.Run)
	dir, err := conn.Directory(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, a := range all.Agents {
		h.until("agent "+a.Name+" is announced", func() bool {
			_, _, ok, err := dir.Get(h.t.Context(), a.Name)
			return err == nil && ok
		})
	}
	h.until("worker "+name+" is listed", func() bool {
		workers, err := presence.New(conn).Workers(h.t.Context())
		return err == nil && slices.ContainsFunc(workers, func(w presence.Worker) bool { return w.Name == name })
	})
	return stop
}

// until waits until a condition holds.
func (h *harness) until(what string, holds func() bool) {
	h.t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			h.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// background runs fn until stop is called or the test ends. Fn must return nil
// when its context ends. Stop waits for that.
func (h *harness) background(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- fn(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				h.t.Errorf("background function: %v", err)
			}
		case <-time.After(patience):
			h.t.Errorf("the background function has not ended within %v", patience)
		}
	})
	h.t.Cleanup(stop)
	return stop
}

// prices are those of one model of the tests.
var prices = price.Table{Currency: "USD", Models: map[string]price.Model{
	"script/echo": {Input: price.FromUnits(1000), Output: price.FromUnits(1000)},
}}

// serve serves the API until stop is called or the test ends, and sets url.
func (h *harness) serve(tokens httpguard.Tokens) (s *Server, stop func()) {
	h.t.Helper()
	l, err := httpguard.Listen(h.t.Context(), "127.0.0.1:0", tokens)
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "http://" + l.Addr().String()
	s = New(Config{Client: h.Client, Conn: h.conn, Tokens: tokens, Prices: prices})
	return s, h.background(func(ctx context.Context) error { return s.Serve(ctx, l) })
}

// request makes a request to the server. A body that begins with { is JSON.
func (h *harness) request(method, path, body string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	return r
}

// do sends a request, and returns the status, the headers and the body of the
// answer.
func (h *harness) do(r *http.Request) (status int, header http.Header, body string) {
	h.t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// expect sends a request, checks the status of the answer, and decodes the body
// into a value, unless that is nil.
func (h *harness) expect(r *http.Request, want int, into any) {
	h.t.Helper()
	status, _, body := h.do(r)
	if status != want {
		h.t.Fatalf("%s %s: status %d, want %d: %s", r.Method, r.URL.Path, status, want, body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		h.t.Fatalf("%s %s: %v: %s", r.Method, r.URL.Path, err, body)
	}
}

// refused sends a request, and returns the problem of the answer.
func (h *harness) refused(r *http.Request) (p problem) {
	h.t.Helper()
	status, header, body := h.do(r)
	kind := header.Get("Content-Type")
	if err := json.Unmarshal([]byte(body), &p); err != nil || kind != "application/problem+json" {
		h.t.Errorf("%s %s: answer of type %s, %v: %s; want a problem", r.Method, r.URL, kind, err, body)
	}
	if p.Status != status || p.Detail == "" || p.Code == "" || p.Title == "" {
		h.t.Errorf("%s %s: status %d, problem %+v; want the same status, and no empty member",
			r.Method, r.URL, status, p)
	}
	return p
}

// get reads a path into a value.
func (h *harness) get(path string, into any) {
	h.t.Helper()
	h.expect(h.request(http.MethodGet, path, ""), http.StatusOK, into)
}

// submit submits a task under a key over HTTP.
func (h *harness) submit(agent, text, key string) {
	h.t.Helper()
	r := h.request(http.MethodPost, "/v1/agents/"+agent+"/tasks", text)
	r.Header.Set(headerKey, key)
	h.expect(r, http.StatusAccepted, nil)
}

// outcome waits for the outcome of a tree.
func (h *harness) outcome(id string) run.Outcome {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), patience)
	defer stop()
	o, err := h.Wait(ctx, client.TreeID(id))
	if err != nil {
		h.t.Fatalf("tree %s: %v", id, err)
	}
	return o
}

// held waits until a tree holds a turn.
func (h *harness) held(id string) {
	h.t.Helper()
	h.until("tree "+id+" holds a turn", func() bool {
		all, err := h.HeldTurns(h.t.Context(), client.TreeID(id))
		return err == nil && len(all) == 1
	})
}

// root returns the root of a tree.
func (h *harness) root(agent, id string) subjects.Run {
	h.t.Helper()
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.conn.Space().Run(a, client.TreeID(id), subjects.Root)
}

// deadLetter makes a dead letter of the agent echo.
func (h *harness) deadLetter(id string) client.DeadLetter {
	h.t.Helper()
	return h.deadLetterOf("echo", id)
}

// deadLetterOf makes a dead letter of an agent: a call without headers.
func (h *harness) deadLetterOf(agent, id string) client.DeadLetter {
	h.t.Helper()
	r := h.root(agent, id)
	m := bus.Message{Subject: r.Call(), Body: []byte(`{"task":"again"}`)}
	if _, err := h.conn.Write(h.t.Context(), m); err != nil {
		h.t.Fatal(err)
	}
	var found client.DeadLetter
	h.until("there is a dead letter", func() bool {
		all, err := h.DeadLetters(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		for _, l := range all {
			if l.Run == r {
				found = l
			}
		}
		return found.ID > 0
	})
	return found
}

// sse is an event of a stream.
type sse struct{ id, event, data string }

// watch opens the stream of the tree t1 after an event, and sends its events to
// a channel that is closed at its end. Stop ends the stream.
func (h *harness) watch(after string) (events <-chan sse, stop func()) {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	h.t.Cleanup(stop)
	r := h.request(http.MethodGet, "/v1/trees/t1/events", "").WithContext(ctx)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(r) //nolint:bodyclose // the goroutine closes it
	if err != nil {
		h.t.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		h.t.Fatalf("status %d, type %s; want a stream of events", res.StatusCode, kind)
	}
	c := make(chan sse, 10_000)
	go func() {
		defer close(c)
		defer res.Body.Close()
		var e sse
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "":
				if e.event != "" {
					c <- e
				}
				e = sse{}
			case "id":
				e.id = value
			case "event":
				e.event = value
			case "data":
				e.data = value
			}
		}
	}()
	return c, stop
}

// next receives the next value of a channel.
func next[T any](t *testing.T, c <-chan T) (v T, ok bool) {
	t.Helper()
	select {
	case v, ok = <-c:
	case <-time.After(patience):
		t.Fatalf("nothing came within %v", patience)
	}
	return v, ok
}
