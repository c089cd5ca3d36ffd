//go:build unix

package agentd_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// benchModel is a model in the process of the benchmark.
type benchModel func(ctx context.Context, req *provider.Request) (*provider.Response, error)

func (m benchModel) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return m(ctx, req)
}

// world is a server with one worker, for benchmarks.
type world struct {
	conn *bus.Conn  // the submitter's
	nc   *nats.Conn // receives the live messages
	wait sync.Map   // subject to chan struct{}
}

// newWorld starts an embedded server and a worker with the given slots.
func newWorld(b *testing.B, slots int, m benchModel, agents ...configs.Agent) *world {
	b.Helper()
	s, err := bus.Serve(bus.ServerConfig{StoreDir: b.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return worldAt(b, s.URL(), agentd.Config{Slots: slots}, m, agents...)
}

// worldAt starts a worker that is connected to the server at url. Its name and
// its model replace those of cfg.
func worldAt(b *testing.B, url string, cfg agentd.Config, m benchModel, agents ...configs.Agent) *world {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	open := func() *bus.Conn {
		c, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: url}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		return c
	}
	w := &world{conn: open()}
	if err := w.conn.Provision(ctx, bus.Provision{}); err != nil {
		b.Fatal(err)
	}
	work := open()
	cfg.Name, cfg.Open = "w1", func(string) (provider.Provider, string, error) { return m, "m", nil }
	worker, err := agentd.New(work, cfg)
	if err != nil {
		b.Fatal(err)
	}
	if err := worker.Serve(configs.Definitions{Agents: agents}); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("the worker ended with %v, want no error", err)
		}
	})
	if w.nc, err = nats.Connect(url); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.nc.Close)
	if _, err := w.nc.Subscribe("axe.live.result.>", func(m *nats.Msg) {
		if c, ok := w.wait.LoadAndDelete(m.Subject); ok {
			close(c.(chan struct{}))
		}
	}); err != nil {
		b.Fatal(err)
	}
	return w
}

// expect returns a channel that is closed when a message is published to the
// subject.
func (w *world) expect(subject string) chan struct{} {
	c := make(chan struct{})
	w.wait.Store(subject, c)
	return c
}

// call calls an agent as a root, without a submission, and waits for its
// outcome. The stream then has two more messages: the call and the outcome.
func (w *world) call(b *testing.B, agent subjects.Agent) {
	b.Helper()
	id, _ := subjects.ParseTree(bus.NewID())
	r := w.conn.Space().Run(agent, id, subjects.Root)
	result := w.conn.Space().Result(agent, id)
	head := subjects.Header{
		Tree:     id,
		Path:     subjects.Root,
		MaxDepth: 5,
		Deadline: time.Now().Add(time.Hour),
		Reply:    result,
	}
	done := w.expect(w.conn.Space().Live(result))
	m := bus.Message{
		Subject: r.Call(),
		Header:  head.Pairs(),
		Body:    []byte(`{"task":"hello"}`),
		Fence:   bus.After(r.Call(), 0),
	}
	if _, err := w.conn.Write(b.Context(), m); err != nil {
		b.Errorf("write of the call: %v", err)
		return
	}
	<-done
}

// benchAgent returns an agent. Its system prompt names its sub-agent.
func benchAgent(name string, subs ...string) configs.Agent {
	return configs.Agent{
		Name: name, Model: "in/process", SystemPrompt: strings.Join(subs, ""), SubAgents: subs,
		SubAgentsConf: configs.SubAgentsConfig{Parallel: true, MaxDepth: 5},
	}
}

// fan answers a task with n calls of the agent that the system prompt names,
// and answers results with their number. An agent without tools answers at
// once.
func fan(n int) benchModel {
	return func(_ context.Context, req *provider.Request) (*provider.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if len(req.Tools) == 0 || last.Role == provider.ToolRole {
			for i, r := range last.ToolResults {
				if r.IsError || r.CallID != strconv.Itoa(i) {
					return nil, fmt.Errorf("result %d is %+v", i, r)
				}
			}
			return &provider.Response{Content: strconv.Itoa(len(last.ToolResults))}, nil
		}
		resp := &provider.Response{}
		for i := range n {
			resp.ToolCalls = append(
				resp.ToolCalls,
				provider.NewToolCall(
					strconv.Itoa(i),
					"call_agent",
					fmt.Appendf(nil, `{"agent":%q,"task":"t"}`, req.System),
				),
			)
		}
		return resp, nil
	}
}

// result submits a task to an agent and returns the outcome.
func (w *world) result(b *testing.B, agent subjects.Agent) run.Outcome {
	b.Helper()
	id, _ := subjects.ParseTree(bus.NewID())
	done := w.expect(w.conn.Space().Live(w.conn.Space().Result(agent, id)))
	task := bus.Message{Subject: w.conn.Space().Submit(agent, id), Body: []byte("go")}
	if _, err := w.conn.Write(b.Context(), task); err != nil {
		b.Fatal(err)
	}
	<-done
	m, _, err := w.conn.First(b.Context(), w.conn.Space().Result(agent, id))
	if err != nil {
		b.Fatal(err)
	}
	o, err := run.DecodeOutcome(m.Body)
	if err != nil || o.Status != run.StatusCompleted {
		b.Fatalf("outcome %s %q, error %v, want completed", o.Status, o.Error, err)
	}
	return o
}

// BenchmarkOneSlot runs fifty trees of depth 5 and fan-out 2 at once, 63 runs
// each, on a worker with one slot. A parent that held the slot while it waits
// for its children would wait for ever.
func BenchmarkOneSlot(b *testing.B) {
	const trees = 50
	var agents []configs.Agent
	for i := range 6 {
		subs := []string{}
		if i < 5 {
			subs = append(subs, fmt.Sprintf("d%d", i+1))
		}
		agents = append(agents, benchAgent(fmt.Sprintf("d%d", i), subs...))
	}
	root, _ := subjects.ParseAgent("d0")
	w := newWorld(b, 1, fan(2), agents...)
	for b.Loop() {
		var all sync.WaitGroup
		for range trees {
			all.Go(func() {
				if o := w.result(b, root); o.Subtree.Runs != 63 {
					b.Errorf("a tree of %d runs, want 63", o.Subtree.Runs)
				}
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(b.N*trees*63)/b.Elapsed().Seconds(), "runs/s")
}
