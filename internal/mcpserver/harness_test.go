package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/catalog"
	"github.com/axebus/axe/subjects"
)

// patience is the longest wait for an event that has to come.
const patience = 30 * time.Second

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
	"guarded": `
[[turn]]
turn = 1
[[turn.call]]
agent = 'echo'
task = '{{.Task}}'
[[turn]]
text = 'after: {{(index .Results 0).Content}}'
`,
	"watcher": `
[[turn]]
text = '{"decision": "pause", "reason": "why?"}'
`,
}

// gate is a model that answers when open is closed.
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

// harness is a NATS server with a worker, and a client, for MCP servers under
// test.
type harness struct {
	*client.Client
	t    *testing.T
	conn *bus.Conn
	dir  *bus.Directory
	gate *gate
	// trees gets the id of each new tree after watchTrees.
	trees chan string
}

// newHarness starts a NATS server and a worker, until the test ends.
func newHarness(t *testing.T) *harness {
	t.Helper()
	conn := testbus.Open(t)
	dir, err := conn.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{
		client.New(conn), t, conn, dir, &gate{make(chan struct{}, 10), make(chan struct{})}, make(chan string, 10),
	}
	h.startWorker()
	return h
}

// startWorker runs a worker until the test ends. It returns when all agents are
// announced.
func (h *harness) startWorker() {
	h.t.Helper()
	texts := h.t.TempDir()
	agents := []configs.Agent{{
		Name: "gate", Model: "test/gate", Digest: "gate", SubAgentsConf: configs.SubAgentsConfig{Parallel: true},
	}}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(texts, name+".toml"), []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
		a := configs.Agent{
			Name: name, Description: "About " + name, Model: "script/" + name, SubAgents: []string{"echo", "gate"},
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true}, Digest: name,
		}
		if name == "guarded" {
			a.Supervision = configs.Supervision{Mode: configs.SupervisedHuman, Agent: "watcher", Timeout: time.Hour}
		}
		agents = append(agents, a)
	}
	models := catalog.New(catalog.Config{ScriptDir: texts})
	w, err := agentd.New(h.conn, agentd.Config{
		Name: "w1", Grace: time.Second,
		Open: func(model string) (provider.Provider, string, error) {
			if model == "test/gate" {
				return h.gate, model, nil
			}
			return models.Open(model)
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := w.Serve(configs.Definitions{Agents: agents}); err != nil {
		h.t.Fatal(err)
	}
	h.background(w.Run)
	ctx, stop := context.WithTimeout(h.t.Context(), patience)
	defer stop()
	left := map[string]bool{}
	for _, a := range agents {
		left[a.Name] = true
	}
	_ = h.dir.Watch(ctx, func(key string, _ []byte) {
		if delete(left, key); len(left) == 0 {
			stop()
		}
	}, func() {})
	if len(left) > 0 {
		h.t.Fatalf("the agents %v were not announced within %v", left, patience)
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

// server returns a server under test, on the connection of the harness.
func (h *harness) server(cfg Config) *Server {
	h.t.Helper()
	cfg.Conn = h.conn
	s, err := New(cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// host is an MCP client that is connected to a server under test.
type host struct {
	*mcp.ClientSession
	t *testing.T
	// changed gets a value for each notification that the tools changed.
	changed chan struct{}
	// reports gets the reports of progress.
	reports chan *mcp.ProgressNotificationParams
	// disconnect closes the connection. Stop stops the server.
	disconnect, stop func()
}

// pipe starts a server, and connects a host to it through a pair of pipes.
func (h *harness) pipe(cfg Config) *host {
	h.t.Helper()
	s := h.server(cfg)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	stop := h.background(func(ctx context.Context) error { return s.ServePipe(ctx, in, out) })
	c := h.connect(&mcp.IOTransport{Reader: fromServer, Writer: toServer}, "")
	c.stop = stop
	c.disconnect = func() { _ = toServer.Close() }
	return c
}

// connect returns a host that is connected until the test ends. It speaks a
// version of the protocol, "" for the newest one.
func (h *harness) connect(t mcp.Transport, version string) *host {
	h.t.Helper()
	c := &host{
		t: h.t, changed: make(chan struct{}, 100), reports: make(chan *mcp.ProgressNotificationParams, 1000),
	}
	m := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.reports <- r.Params
		},
	})
	session, err := m.Connect(h.t.Context(), t, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.t.Fatal(err)
	}
	c.ClientSession = session
	h.t.Cleanup(func() { _ = session.Close() })
	return c
}

// listen starts a server with a token over HTTP, until the test ends. It
// returns the server's URL.
func (h *harness) listen(cfg Config, token string) string {
	h.t.Helper()
	url, _ := h.listenUntil(cfg, token)
	return url
}

// listenUntil is listen, and also returns a function that stops the server.
func (h *harness) listenUntil(cfg Config, token string) (url string, stop func()) {
	h.t.Helper()
	return h.serveHTTP(h.server(cfg), token)
}

// serveHTTP serves a server over HTTP until stop is called or the test ends.
func (h *harness) serveHTTP(s *Server, token string) (url string, stop func()) {
	h.t.Helper()
	l := h.listener()
	stop = h.background(func(ctx context.Context) error { return s.ServeHTTP(ctx, l, httpguard.OneToken(token)) })
	return "http://" + l.Addr().String() + Path, stop
}

// listener listens at a local address.
func (h *harness) listener() net.Listener {
	h.t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(h.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// args are the arguments of a call.
type args map[string]any

// ask calls a tool, and returns the result and its structured content.
func (c *host) ask(tool string, in args) (*mcp.CallToolResult, output) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		c.t.Fatal(err)
	}
	return res, structured(c.t, res)
}

// structured returns the structured content of a result.
func structured(t *testing.T, res *mcp.CallToolResult) (out output) {
	t.Helper()
	body, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &out); err != nil && res.StructuredContent != nil {
		t.Fatal(err)
	}
	return out
}

// text returns the text of a result, "" if it has not exactly one part.
func text(res *mcp.CallToolResult) string {
	if len(res.Content) != 1 {
		return ""
	}
	t, _ := res.Content[0].(*mcp.TextContent)
	return t.Text
}

// begun is a call in flight.
type begun struct {
	t    *testing.T
	stop context.CancelFunc
	res  chan *mcp.CallToolResult
}

// begin begins a call. It returns when the model of the agent gate was asked.
func (c *host) begin(h *harness, p *mcp.CallToolParams) *begun {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	b := &begun{h.t, stop, make(chan *mcp.CallToolResult, 1)}
	go func() {
		res, err := c.CallTool(ctx, p)
		if err != nil {
			res = nil
		}
		b.res <- res
	}()
	await(h.t, h.gate.asked)
	return b
}

// result waits for the result of the call. It is nil if the call failed.
func (b *begun) result() *mcp.CallToolResult {
	b.t.Helper()
	return await(b.t, b.res)
}

// await receives a value from a channel. It waits for up to patience.
func await[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("no value came within %v", patience)
	}
	return v
}

// outcome waits for the outcome of a tree.
func (h *harness) outcome(id string) run.Outcome {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), patience)
	defer stop()
	o, err := h.Wait(ctx, client.TreeID(id))
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// put puts the card of an agent that no worker serves into the directory.
func (h *harness) put(card agentd.Card) {
	h.t.Helper()
	body, err := json.Marshal(card)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.dir.Put(h.t.Context(), card.Name, body); err != nil {
		h.t.Fatal(err)
	}
}

// watchTrees sends the id of each tree whose root is called to trees.
func (h *harness) watchTrees() {
	h.t.Helper()
	space := h.conn.Space()
	err := h.conn.Watch(h.t.Context(), space.Live(space.Runs()), func(m bus.Stored) {
		if at, err := space.Parse(m.Subject); err == nil && at.Kind == subjects.Call && at.Run.Path.IsRoot() {
			h.trees <- at.Run.Tree.String()
		}
	})
	if err != nil {
		h.t.Fatal(err)
	}
}
