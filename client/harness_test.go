package client_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider/catalog"
	"github.com/axebus/axe/subjects"
)

// harness is a server in a synctest bubble, with a client. Its clock runs only
// while every goroutine waits.
//
//	withHarness(t, func(h *harness) {
//		h.startWorker()
//		h.answers(h.submit("echo", "hello", ""), "echo: hello")
//	})
type harness struct {
	*client.Client
	t      *testing.T
	conn   *bus.Conn
	server *bus.Server
	models *catalog.Catalog
	// stepAt is the time at which the server's clock is set forward by
	// stepBy; zero for never.
	stepAt time.Time
	stepBy time.Duration
	// slots is the number of slots of a worker, 0 for the default.
	slots int
	// ends holds the functions that stop the workers and the connections.
	ends []func()
	// timeout is that of the trees of submit; 0: that of the worker.
	timeout time.Duration
}

// agentNames are the agents of the worker. Watcher supervises guarded. Pair has
// the style mail. All others have the style call.
var agentNames = []string{"guarded", "watcher", "echo", "slow", "bad", "lead", "slowlead", "pair"}

// scripts hold the answers of the agents' models. Lead, slowlead and guarded
// call other agents.
var scripts = map[string]string{
	"echo": `
[[turn]]
latency = '2s'
text = 'echo: {{.Task}}'
`,
	"slow": `
[[turn]]
latency = '10m'
text = 'slow: {{.Task}}'
`,
	"bad": `
[[turn]]
latency = '1s'
[turn.fail]
category = 'server'
message = 'broken'
`,
	"lead": `
[[turn]]
turn = 1
latency = '1s'
[[turn.call]]
agent = 'echo'
task = '{{.Task}} 1'
[[turn.call]]
agent = 'nobody'
task = 'x'
[[turn.call]]
agent = 'bad'
task = 'x'
[[turn]]
latency = '1s'
text = 'together: {{(index .Results 0).Content}}'
`,
	"slowlead": `
[[turn]]
turn = 1
[[turn.call]]
agent = 'slow'
task = 'x'
[[turn]]
text = '{{(index .Results 0).Content}}'
`,
	"guarded": `
[[turn]]
turn = 1
text = 'let me'
[[turn.call]]
agent = 'echo'
task = '{{.Task}}'
[[turn]]
text = '{{(index .Results 0).Content}}'
`,
	// The verdict is continue for a task with the word fine, and pause for
	// any other.
	"watcher": `
[[turn]]
when = '{{contains "fine" .Task}}'
text = '{"decision": "continue"}'
[[turn]]
latency = '1s'
text = '{"decision": "pause", "reason": "why?"}'
`,
	// The root forks a run and waits for mail until the fork is dead. The
	// fork answers and is idle. After a message to it, the fork takes its
	// mail. The turn after that fails, and the fork is idle again.
	"pair": `
[[turn]]
turn = 1
when = '{{contains "Your id is r." .System}}'
latency = '1s'
[[turn.call]]
tool = 'fork'
arguments = { prompt = 'do it' }
[[turn]]
when = '{{contains "dead" (join "" .Results)}}'
text = 'dead'
[[turn]]
when = '{{contains "Your id is r." .System}}'
[[turn.call]]
tool = 'wait'
[[turn]]
turn = 1
latency = '1s'
text = 'one: {{.Task}}'
[[turn]]
when = '{{not .Results}}'
latency = '1s'
[[turn.call]]
tool = 'check_mail'
[[turn]]
[turn.fail]
category = 'server'
message = 'broken'
`,
}

// withHarness runs fn with a harness in a bubble.
func withHarness(t *testing.T, fn func(h *harness)) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := t.TempDir()
	// A server's goroutine for access times would stall the bubble's clock.
	// So it starts outside of the bubble.
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server, err := bus.Serve(bus.ServerConfig{StoreDir: store})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		h := &harness{t: t, server: server, models: catalog.New(catalog.Config{ScriptDir: dir})}
		h.conn = h.connect()
		h.Client = client.New(h.conn)
		if err := h.conn.Provision(t.Context(), bus.Provision{}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, end := range h.ends {
				end()
			}
		}()
		fn(h)
	})
}

// connect opens a connection that sees the step of the server's clock.
func (h *harness) connect() *bus.Conn {
	conn, err := bus.Open(h.t.Context(), bus.Config{
		Dial: bus.Dial{Server: h.server},
		ServerTime: func(t time.Time) time.Time {
			if h.stepAt.IsZero() || t.Before(h.stepAt) {
				return t
			}
			return t.Add(h.stepBy)
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.ends = append(h.ends, conn.Close)
	return conn
}

// startWorker starts the worker w1 and returns when all its agents are
// announced. The worker runs until drain is called or the test ends.
func (h *harness) startWorker() (drain func()) {
	conn := h.connect()
	w, err := agentd.New(conn, agentd.Config{Name: "w1", Open: h.models.Open, Grace: time.Second, Slots: h.slots})
	if err != nil {
		h.t.Fatal(err)
	}
	var agents []configs.Agent
	for _, name := range agentNames {
		a := configs.Agent{
			Name: name, Model: "script/" + name, SubAgents: []string{"echo", "slow", "bad"},
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true}, Digest: name,
		}
		switch name {
		case "pair":
			a.Delegation.Styles = configs.Styles{configs.StyleMail}
		case "guarded":
			a.Supervision = configs.Supervision{
				Mode: configs.SupervisedHuman, Agent: "watcher", Timeout: 10 * time.Minute,
			}
		}
		agents = append(agents, a)
	}
	if err := w.Serve(configs.Definitions{Agents: agents}); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	drain = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Errorf("the worker ended with %v, want no error", err)
		}
	})
	h.ends = append([]func(){drain}, h.ends...)
	h.awaitAnnounced()
	return drain
}

// awaitAnnounced waits until every agent is in the directory.
func (h *harness) awaitAnnounced() {
	dir, err := h.conn.Directory(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, name := range agentNames {
		for ok := false; !ok; time.Sleep(10 * time.Millisecond) {
			if _, _, ok, err = dir.Get(h.t.Context(), name); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// submit submits a task and returns its tree. The tree's id is made from key,
// or is new if key is empty.
func (h *harness) submit(agent, text, key string) subjects.Tree {
	h.t.Helper()
	task := client.Task{Agent: h.agent(agent), Text: text, Timeout: h.timeout}
	if key != "" {
		task.ID = client.TreeID(key)
	}
	tree, err := h.Submit(h.t.Context(), task)
	if err != nil {
		h.t.Fatal(err)
	}
	return tree
}

func (h *harness) agent(name string) subjects.Agent {
	h.t.Helper()
	a, err := subjects.ParseAgent(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// write stores a message with any subject and body.
func (h *harness) write(subject, body string) {
	h.t.Helper()
	if _, err := h.conn.Write(h.t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
		h.t.Fatal(err)
	}
}

// answers waits for the outcome of a tree, and checks that its result, or the
// text of its error, is want.
func (h *harness) answers(tree subjects.Tree, want string) {
	h.t.Helper()
	o, err := h.Wait(h.t.Context(), tree)
	if err != nil {
		h.t.Fatal(err)
	}
	if got := o.Result + o.Error; got != want {
		h.t.Errorf("outcome %s: %s, want %s", o.Status, got, want)
	}
}
