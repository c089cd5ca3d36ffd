package client_test

import (
	"context"
	"os"
	"path/filepath"
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

// stage is a bus of its own, in a bubble, with a client.
type stage struct {
	*client.Client
	t      *testing.T
	conn   *bus.Conn
	server *bus.Server
	models *catalog.Catalog
	ends   []func()
}

// pair is the script of an agent that forks a run and waits for its mail until
// that is dead. The fork is idle, and fails when it is written to first.
const pair = `
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
`

// staged are the agents. The first is under the eyes of the second, and the
// last is of style mail.
var staged = []string{"guarded", "watcher", "echo", "slow", "bad", "lead", "slowlead", "pair"}

// onStage runs fn in a bubble. Agents are given by their models' scripts; those
// named lead and slowlead call the others.
func onStage(t *testing.T, fn func(s *stage)) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"echo": "[[turn]]\nlatency = '2s'\ntext = 'echo: {{.Task}}'\n",
		"slow": "[[turn]]\nlatency = '10m'\ntext = 'slow: {{.Task}}'\n",
		"bad":  "[[turn]]\nlatency = '1s'\n[turn.fail]\ncategory = 'server'\nmessage = 'broken'\n",
		"lead": "[[turn]]\nturn = 1\nlatency = '1s'\n[[turn.call]]\nagent = 'echo'\ntask = '{{.Task}} 1'\n" +
			"[[turn.call]]\nagent = 'nobody'\ntask = 'x'\n[[turn.call]]\nagent = 'bad'\ntask = 'x'\n" +
			"[[turn]]\nlatency = '1s'\ntext = 'together: {{(index .Results 0).Content}}'\n",
		"guarded":  "[[turn]]\nturn = 1\ntext = 'let me'\n[[turn.call]]\nagent = 'echo'\ntask = '{{.Task}}'\n[[turn]]\ntext = '{{(index .Results 0).Content}}'\n",
		"watcher":  "[[turn]]\nwhen = '{{contains \"fine\" .Task}}'\ntext = '{\"decision\": \"continue\"}'\n[[turn]]\nlatency = '1s'\ntext = '{\"decision\": \"pause\", \"reason\": \"why?\"}'\n",
		"pair":     pair,
		"slowlead": "[[turn]]\nturn = 1\n[[turn.call]]\nagent = 'slow'\ntask = 'x'\n[[turn]]\ntext = '{{(index .Results 0).Content}}'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := t.TempDir()
	// its goroutine would stall the bubble's clock
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server, err := bus.Serve(bus.ServerConfig{StoreDir: store})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		s := &stage{t: t, server: server, models: catalog.New(catalog.Config{ScriptDir: dir})}
		s.conn = s.connect()
		s.Client = client.New(s.conn)
		if err := s.conn.Provision(t.Context(), bus.Provision{}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, end := range s.ends {
				end()
			}
		}()
		fn(s)
	})
}

func (s *stage) connect() *bus.Conn {
	conn, err := bus.Open(s.t.Context(), bus.Config{Dial: bus.Dial{Server: s.server}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.ends = append(s.ends, conn.Close)
	return conn
}

// hire runs the worker w1 until the stage ends.
func (s *stage) hire() {
	conn := s.connect()
	w, err := agentd.New(conn, agentd.Config{Name: "w1", Open: s.models.Open, Grace: time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	var agents []configs.Agent
	for _, a := range staged {
		agents = append(agents, configs.Agent{
			Name: a, Model: "script/" + a, SubAgents: []string{"echo", "slow", "bad"},
			SubAgentsConf: configs.SubAgentsConfig{Parallel: true}, Digest: a,
		})
	}
	agents[len(agents)-1].Delegation.Styles = configs.Styles{configs.StyleMail}
	agents[0].Supervision = configs.Supervision{
		Mode:    configs.SupervisedHuman,
		Agent:   "watcher",
		Timeout: 10 * time.Minute,
	}
	if err := w.Serve(agents); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.ends = append([]func(){func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	}}, s.ends...)
	s.announced()
}

// announced waits until every agent is known.
func (s *stage) announced() {
	dir, err := s.conn.Directory(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, a := range staged {
		for ok := false; !ok; time.Sleep(10 * time.Millisecond) {
			if _, _, ok, err = dir.Get(s.t.Context(), a); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// submit hands over a task, under a key if it is not empty.
func (s *stage) submit(agent, text, key string) subjects.Tree {
	s.t.Helper()
	task := client.Task{Agent: s.agent(agent), Text: text}
	if key != "" {
		task.ID = client.TreeID(key)
	}
	tree, err := s.Submit(s.t.Context(), task)
	if err != nil {
		s.t.Fatal(err)
	}
	return tree
}

func (s *stage) agent(name string) subjects.Agent {
	s.t.Helper()
	a, err := subjects.ParseAgent(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// write stores a message, whatever it is.
func (s *stage) write(subject, body string) {
	s.t.Helper()
	if _, err := s.conn.Write(s.t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
		s.t.Fatal(err)
	}
}

// answers checks the outcome of a tree.
func (s *stage) answers(tree subjects.Tree, want string) {
	s.t.Helper()
	o, err := s.Wait(s.t.Context(), tree)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := o.Result + o.Error; got != want {
		s.t.Errorf("%s: %s, want %s", o.Status, got, want)
	}
}
