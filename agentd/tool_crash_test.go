package agentd_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/mcpclient"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// toolDeath is the moment at which the worker of a tool dies.
type toolDeath struct {
	name   string
	op     string
	suffix string // of the subject of the operation
	after  bool
}

// toolDeaths are the moments, in their order.
var toolDeaths = []toolDeath{
	{"before started", "write", ".r-1-0.log", false},
	{"after started", "write", ".r-1-0.log", true},
	{"after the effect", "write", ".r.in.1.0", false},
	{"after the outcome", "write", ".r.in.1.0", true},
}

// TestToolCrashTable kills the worker of a built-in tool. It kills it at each
// moment if the effect may happen once, and otherwise after the effect and
// after the outcome. The effects are counted outside the worker. An effect that
// may happen once happens once at most. Its outcome is unknown if the worker
// died between the entry of its begin and the outcome. Any other effect may
// happen twice, with the same key.
func TestToolCrashTable(t *testing.T) {
	thorough(t)
	t.Parallel()
	testToolCrashes(t, runCommandTool)
}

// TestToolsetCrashTable is TestToolCrashTable for each kind of toolset that a
// bubble can serve.
func TestToolsetCrashTable(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, kind := range toolsetKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testToolCrashes(t, kind)
		})
	}
}

// testToolCrashes runs all rows of the table for one kind of tool.
func testToolCrashes(t *testing.T, kind toolKind) {
	t.Helper()
	for _, test := range toolCrashes {
		t.Run(test.name(), func(t *testing.T) {
			t.Parallel()
			serve, effects := kind(t, configs.ToolConfig{Effect: test.effect})
			withHarness(t, func(h *harness) {
				serve(h)
				test.run(t, h, effects)
			})
		})
	}
}

// TestToolCrashMCP is TestToolCrashTable for the tool of an MCP server, without
// a bubble: its time would not pass while the connection waits.
func TestToolCrashMCP(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, test := range toolCrashes {
		if test.effect == configs.ToolReads {
			continue // as ToolIdempotent
		}
		t.Run(test.name(), func(t *testing.T) {
			t.Parallel()
			serve, effects := mcpTool(t, configs.ToolConfig{Effect: test.effect})
			inRealTime(t, func(h *harness) {
				serve(h)
				test.run(t, h, effects)
			})
		})
	}
}

// toolCrash is a row of the table.
type toolCrash struct {
	effect  configs.ToolEffect
	death   int // index in toolDeaths
	effects int // number of effects that are counted
	// kind is that of the tool's outcome; "" for a completed one.
	kind run.Kind
}

var toolCrashes = []toolCrash{
	{configs.ToolOnce, 0, 1, ""},
	{configs.ToolOnce, 1, 0, run.KindUnknown},
	{configs.ToolOnce, 2, 1, run.KindUnknown},
	{configs.ToolOnce, 3, 1, ""},
	{configs.ToolIdempotent, 2, 2, ""},
	{configs.ToolIdempotent, 3, 1, ""},
	{configs.ToolReads, 2, 2, ""},
	{configs.ToolReads, 3, 1, ""},
}

func (c toolCrash) name() string { return string(c.effect) + " " + toolDeaths[c.death].name }

// run kills the worker of the tool that a harness serves, and compares the
// effects and the outcome of the call with the row.
func (c toolCrash) run(t *testing.T, h *harness, effects func() []string) {
	t.Helper()
	root := h.killToolAt(toolDeaths[c.death])
	h.expectToolOutcome(root, time.Hour, c.kind)
	keys := effects()
	if len(keys) != c.effects {
		t.Errorf("%d effects, want %d", len(keys), c.effects)
	}
	for _, key := range keys {
		if want := root.Tree.String() + ".r-1-0"; key != want {
			t.Errorf("an effect with the key %q, want %q", key, want)
		}
	}
	h.checkVerified()
}

// expectToolOutcome waits at most limit for the end of a tree. The tree must
// complete, and the tool of its first call have one outcome, of the kind.
func (h *harness) expectToolOutcome(root subjects.Run, limit time.Duration, kind run.Kind) {
	o := h.awaitOutcome(root, limit)
	if o.Status != run.StatusCompleted {
		h.tb.Errorf("the run ended as %s %q, want it completed", o.Kind, o.Error)
	}
	if all := h.outcomes(root.Reply(1, 0)); len(all) != 1 || all[0].Kind != kind {
		h.tb.Errorf("the outcomes of the tool are %+v, want one of the kind %q", all, kind)
	}
}

// TestTakenOverToolIsRunning: a worker that takes a tool run over says that the
// tool is running, also while it repeats for the worker before that it asks.
func TestTakenOverToolIsRunning(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const subject = "effects.act"
		nc, err := nats.Connect("", nats.InProcessServer(bus.Dial{Server: h.server}))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		calls := make(chan struct{}, 2)
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			calls <- struct{}{}
			if len(calls) == 2 {
				time.Sleep(2 * bus.DefaultAckWait)
			}
			_ = m.Respond([]byte("done"))
		}); err != nil {
			t.Fatal(err)
		}
		h.serveSet(configs.Toolset{Kind: configs.ToolsetNATS}, configs.ToolsetTool{
			ToolConfig: configs.ToolConfig{Effect: configs.ToolReads}, Subject: subject,
		})
		root := h.killToolAt(toolDeaths[2])
		h.eventually("a second call of the tool", func() bool { return len(calls) == 2 })
		for range 4 {
			time.Sleep(bus.DefaultAckWait * 3 / 10)
			survey, err := presence.New(h.conn).Survey(h.ctx)
			if err != nil {
				t.Fatal(err)
			}
			var events []string
			for _, b := range survey.AtWork(h.ctx, root.Tree) {
				for _, r := range b.Runs {
					events = append(events, r.Path.String()+" "+r.Progress.Event)
				}
			}
			if want := []string{"r-1-0 " + run.ProgressRunning}; !slices.Equal(events, want) {
				t.Errorf("the worker has %q in hand, want %q", events, want)
			}
		}
		h.expectToolOutcome(root, time.Hour, "")
	})
}

// TestToolUnknown shows the other ways to go on after a call that may have
// taken effect: the call is made again, or the run fails.
func TestToolUnknown(t *testing.T) {
	thorough(t)
	t.Parallel()
	for _, test := range []struct {
		onUnknown configs.OnUnknown
		effects   int
		kind      run.Kind // of the run
	}{
		{configs.UnknownAgain, 2, ""},
		{configs.UnknownFail, 1, run.KindUnknown},
	} {
		t.Run(string(test.onUnknown), func(t *testing.T) {
			t.Parallel()
			serve, effects := runCommandTool(t, configs.ToolConfig{OnUnknown: test.onUnknown})
			withHarness(t, func(h *harness) {
				serve(h)
				root := h.killToolAt(toolDeaths[2])
				o := h.awaitOutcome(root, time.Hour)
				if o.Kind != test.kind {
					t.Errorf("the run ended as %s %q, want the kind %q", o.Kind, o.Error, test.kind)
				}
				if keys := effects(); len(keys) != test.effects {
					t.Errorf("%d effects, want %d", len(keys), test.effects)
				}
				h.checkVerified()
			})
		})
	}
}

// toolKind prepares a tool with some settings, outside of a bubble. Serve makes
// a harness serve an agent that calls the tool once. Effects returns the keys
// of the tool's effects so far.
type toolKind func(t *testing.T, c configs.ToolConfig) (serve func(h *harness), effects func() []string)

var toolsetKinds = map[string]toolKind{"command": commandTool, "http": httpTool, "nats": natsTool}

// keyList collects the keys of a tool's effects.
type keyList struct {
	mu   sync.Mutex
	keys []string
}

func (l *keyList) add(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, key)
}

func (l *keyList) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.keys)
}

// notesItsKey is a command that notes the key of its call in the file effects.
const notesItsKey = "echo $AXE_IDEMPOTENCY_KEY >> effects"

// runCommandTool is the built-in tool run_command.
func runCommandTool(t *testing.T, c configs.ToolConfig) (func(*harness), func() []string) {
	t.Helper()
	dir := t.TempDir()
	return func(h *harness) { h.serveCommands(dir, c.Effect, c.OnUnknown) }, func() []string { return effects(t, dir) }
}

// serveCommands makes an agent that runs one command, which notes its key in
// the file effects of the directory.
func (h *harness) serveCommands(dir string, effect configs.ToolEffect, onUnknown configs.OnUnknown) {
	h.agents = []configs.Agent{define("ops", nil, withTools(dir, "run_command"), func(a *configs.Agent) {
		a.ToolConf = map[string]configs.ToolConfig{"run_command": {Effect: effect, OnUnknown: onUnknown}}
	})}
	h.models["ops"] = turns(calls(use("run_command", "command", notesItsKey)), joinsResults)
}

// commandTool is the tool of a toolset of the kind command.
func commandTool(t *testing.T, c configs.ToolConfig) (func(*harness), func() []string) {
	t.Helper()
	dir := t.TempDir()
	set := configs.Toolset{Kind: configs.ToolsetCommand, Workdir: dir}
	tool := configs.ToolsetTool{ToolConfig: c, Command: []string{"/bin/sh", "-c", notesItsKey}}
	return func(h *harness) { h.serveSet(set, tool) }, func() []string { return effects(t, dir) }
}

// httpTool is the tool of a toolset of the kind http.
func httpTool(t *testing.T, c configs.ToolConfig) (func(*harness), func() []string) {
	t.Helper()
	var keys keyList
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		keys.add(r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(s.Close)
	tool := configs.ToolsetTool{ToolConfig: c, URL: s.URL, Method: "POST"}
	return func(h *harness) { h.serveSet(configs.Toolset{Kind: configs.ToolsetHTTP}, tool) }, keys.all
}

// natsTool is the tool of a toolset of the kind nats. A client of the harness's
// server answers its requests.
func natsTool(t *testing.T, c configs.ToolConfig) (func(*harness), func() []string) {
	t.Helper()
	const subject = "effects.act"
	var keys keyList
	serve := func(h *harness) {
		nc, err := nats.Connect("", nats.InProcessServer(bus.Dial{Server: h.server}))
		if err != nil {
			h.tb.Fatal(err)
		}
		context.AfterFunc(h.ctx, nc.Close)
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			keys.add(m.Header.Get("Nats-Msg-Id"))
			_ = m.Respond([]byte("done"))
		}); err != nil {
			h.tb.Fatal(err)
		}
		h.serveSet(configs.Toolset{Kind: configs.ToolsetNATS}, configs.ToolsetTool{ToolConfig: c, Subject: subject})
	}
	return serve, keys.all
}

// mcpTool is the tool of an MCP server that is reached by HTTP.
func mcpTool(t *testing.T, c configs.ToolConfig) (func(*harness), func() []string) {
	t.Helper()
	url, effects := effectsServer(t)
	return func(h *harness) {
		h.serveSet(configs.Toolset{Kind: configs.ToolsetMCP, URL: url}, configs.ToolsetTool{ToolConfig: c})
	}, effects
}

// effectsServer is an MCP server with the tool act, which notes the key of each
// call. It returns the URL, and a function that returns the keys so far.
func effectsServer(t *testing.T) (url string, effects func() []string) {
	t.Helper()
	var keys keyList
	server := mcp.NewServer(&mcp.Implementation{Name: "effects"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "act"}, func(
		_ context.Context, r *mcp.CallToolRequest, _ struct{},
	) (*mcp.CallToolResult, any, error) {
		key, _ := r.Params.Meta[mcpclient.KeyMeta].(string)
		keys.add(key)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(s.Close)
	return s.URL, keys.all
}

// serveSet serves a toolset with one tool, and an agent that calls the tool.
func (h *harness) serveSet(set configs.Toolset, tool configs.ToolsetTool) {
	set.Name = "set"
	set.Tools = map[string]configs.ToolsetTool{"act": tool}
	h.toolsets = []configs.Toolset{set}
	h.agents = []configs.Agent{define("ops", nil, withTools("", "set/act"))}
	h.models["ops"] = turns(calls(use("act")), joinsResults)
}

// effects returns the keys in the file effects of a directory.
func effects(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "effects"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// killToolAt submits a tree to a worker that dies at a moment of its tool, and
// then starts another worker.
func (h *harness) killToolAt(death toolDeath) subjects.Run {
	return h.killToolWith(death, agentd.Config{})
}

// killToolWith is killToolAt with a configuration of both workers.
func (h *harness) killToolWith(death toolDeath, config agentd.Config) subjects.Run {
	config.Sandbox = agentd.NewSandbox()
	root := h.submitToVictim(death, config)
	h.startWorker("successor", workerOptions{Config: config})
	return root
}

// submitToVictim submits a tree to a worker that dies at a moment of its tool,
// and waits for its death.
func (h *harness) submitToVictim(death toolDeath, config agentd.Config) subjects.Run {
	victim := h.startWorker("victim", workerOptions{Config: config, atStep: func(s step) error {
		if s.Op == death.op && s.After == death.after && strings.HasSuffix(s.Subject, death.suffix) {
			s.worker.kill()
		}
		return nil
	}})
	h.awaitReady()
	root := h.submit("ops", "do it")
	select {
	case <-victim.ended:
	case <-time.After(time.Hour):
		h.tb.Fatalf("the victim was not killed within an hour, want it killed %s", death.name)
	}
	return root
}
