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

// benchModel is a model in this process.
type benchModel func(ctx context.Context, req *provider.Request) (*provider.Response, error)

func (m benchModel) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return m(ctx, req)
}

// world is an embedded server with one worker, for benchmarks.
type world struct {
	conn *bus.Conn // of the requester
	work *bus.Conn // of the worker
	nc   *nats.Conn
	wait sync.Map // subject to chan struct{}
}

func newWorld(b *testing.B, always bool, slots int, m benchModel, agents ...configs.Agent) *world {
	b.Helper()
	s, err := bus.Serve(bus.ServerConfig{StoreDir: b.TempDir(), Listen: "127.0.0.1:0", SyncAlways: always})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return worldAt(b, s.URL(), agentd.Config{Slots: slots}, m, agents...)
}

// worldAt is the same with a server that is there already.
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
	w.work = open()
	cfg.Name, cfg.Open = "w1", func(string) (provider.Provider, string, error) { return m, "m", nil }
	worker, err := agentd.New(w.work, cfg)
	if err != nil {
		b.Fatal(err)
	}
	if err := worker.Serve(agents); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- worker.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
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

// expect returns a channel that is closed when a message is published to the subject.
func (w *world) expect(subject string) chan struct{} {
	c := make(chan struct{})
	w.wait.Store(subject, c)
	return c
}

// call runs an agent without the submission in front of it: one stored call, one stored outcome.
func (w *world) call(b *testing.B, agent subjects.Agent) {
	b.Helper()
	id, _ := subjects.ParseTree(bus.NewID())
	r := w.conn.Space().Run(agent, id, subjects.Root)
	result := w.conn.Space().Result(agent, id)
	head := subjects.Header{Tree: id, Path: subjects.Root, MaxDepth: 5, Deadline: time.Now().Add(time.Hour), Reply: result}
	done := w.expect(w.conn.Space().Live(result))
	if _, err := w.conn.Write(b.Context(), bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"hello"}`), Fence: bus.After(r.Call(), 0)}); err != nil {
		b.Error(err)
		return
	}
	<-done
}

// raw serves durable request and reply with nothing around it (bus.Raw), and returns what asks for one.
func (w *world) raw(b *testing.B, workers int, ahead bool) func() {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	asks, err := w.conn.Raw(ctx, 0)
	if err != nil {
		b.Fatal(err)
	}
	served, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: w.nc.ConnectedUrl()}}) // a worker is another process
	if err != nil {
		b.Fatal(err)
	}
	serves, err := served.Raw(ctx, 0)
	if err != nil {
		b.Fatal(err)
	}
	group := map[bool]string{false: "pulled", true: "ahead"}[ahead]
	ended := make(chan error, 1)
	go func() {
		ended <- serves.Serve(ctx, group, workers, ahead, func(_ context.Context, body []byte) ([]byte, error) { return body, nil })
	}()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		served.Close()
	})
	return func() {
		if _, err := asks.Ask(ctx, group, []byte(`{"task":"hello"}`)); err != nil {
			b.Error(err)
		}
	}
}

// inFlight does n operations, k at once, and returns how long that took.
func inFlight(n, k int, do func()) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for i := range k {
		wg.Go(func() {
			for range n/k + min(1, max(0, n%k-i)) {
				do()
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func benchEcho(_ context.Context, req *provider.Request) (*provider.Response, error) {
	return &provider.Response{Content: req.Messages[0].Content}, nil
}

func benchAgent(name string, subs ...string) configs.Agent {
	return configs.Agent{
		Name: name, Model: "in/process", SystemPrompt: strings.Join(subs, ""), SubAgents: subs,
		SubAgentsConf: configs.SubAgentsConfig{Parallel: true, MaxDepth: 5},
	}
}

// BenchmarkLeaf compares leaf agents with raw durable request and reply on the same server, in turn: two
// publishes, a pull delivery and an acknowledgement. One operation is one of each. A resident server
// (agentd --embedded) syncs always, axe run at an interval.
func BenchmarkLeaf(b *testing.B) {
	leaf, _ := subjects.ParseAgent("leaf")
	for _, c := range []struct {
		sync string
		k    int
	}{{"interval", 1}, {"interval", 64}, {"always", 1}, {"always", 64}} {
		k := c.k
		b.Run(fmt.Sprintf("sync=%s/inflight=%d", c.sync, k), func(b *testing.B) {
			w := newWorld(b, c.sync == "always", 64, benchEcho, benchAgent("leaf"))
			all := []*timed{
				{name: "pulled", do: w.raw(b, k, false)},
				{name: "ahead", do: w.raw(b, k, true)},
				{name: "leaf", do: func() { w.call(b, leaf) }},
			}
			for _, t := range all {
				inFlight(4*k, k, t.do)
			}
			ops := 0
			for b.Loop() {
				n := 16 * k
				for _, t := range all {
					t.run(n, k)
				}
				ops += n
			}
			b.ReportMetric(0, "ns/op")
			for _, t := range all {
				if t.name == "leaf" {
					b.ReportMetric(t.wall.Seconds()*1e6*float64(k)/float64(ops), "leaf-µs")
					b.ReportMetric(t.cpu.Seconds()*1e6/float64(ops), "leaf-cpu-µs")
					continue
				}
				b.ReportMetric(t.wall.Seconds()*1e6*float64(k)/float64(ops), t.name+"-µs")
				b.ReportMetric(t.cpu.Seconds()*1e6/float64(ops), t.name+"-cpu-µs")
				b.ReportMetric(all[2].wall.Seconds()/t.wall.Seconds(), "latency/"+t.name)
				b.ReportMetric(t.wall.Seconds()/all[2].wall.Seconds(), "rate/"+t.name)
			}
		})
	}
}

// timed is something whose time is taken.
type timed struct {
	name      string
	do        func()
	wall, cpu time.Duration
}

func (t *timed) run(n, k int) {
	before := cpu()
	t.wall += inFlight(n, k, t.do)
	t.cpu += cpu() - before
}

// fan answers a user's message with n calls of the agent named by the system prompt, and results with
// their number.
func fan(n int, latency time.Duration) benchModel {
	return func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if latency > 0 {
			select {
			case <-time.After(latency):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
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
			resp.ToolCalls = append(resp.ToolCalls, provider.NewToolCall(strconv.Itoa(i), "call_agent", fmt.Appendf(nil, `{"agent":%q,"task":"t"}`, req.System)))
		}
		return resp, nil
	}
}

// result runs an agent and decodes its outcome.
func (w *world) result(b *testing.B, agent subjects.Agent) run.Outcome {
	b.Helper()
	id, _ := subjects.ParseTree(bus.NewID())
	done := w.expect(w.conn.Space().Live(w.conn.Space().Result(agent, id)))
	if _, err := w.conn.Write(b.Context(), bus.Message{Subject: w.conn.Space().Submit(agent, id), Body: []byte("go")}); err != nil {
		b.Fatal(err)
	}
	<-done
	m, _, err := w.conn.First(b.Context(), w.conn.Space().Result(agent, id))
	if err != nil {
		b.Fatal(err)
	}
	o, err := run.DecodeOutcome(m.Body)
	if err != nil || o.Status != run.StatusCompleted {
		b.Fatal(o.Error, err)
	}
	return o
}

// BenchmarkFanOut is one parent with N children: the time for each child should not grow with N, and
// neither should the number of messages that the worker reads for each.
func BenchmarkFanOut(b *testing.B) {
	parent, _ := subjects.ParseAgent("parent")
	for _, n := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			w := newWorld(b, false, 64, fan(n, 0), benchAgent("parent", "leaf"), benchAgent("leaf"))
			w.result(b, parent)
			before := w.work.Stats()
			for b.Loop() {
				w.result(b, parent)
			}
			read := w.work.Stats().Messages - before.Messages
			b.ReportMetric(float64(read)/float64(b.N)/float64(n), "read/child")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/child")
		})
	}
}

// BenchmarkNested is a tree of three levels with a fan-out of five and a model that takes 50 ms: ideal
// is seven times the model's latency, four levels of which three ask twice.
func BenchmarkNested(b *testing.B) {
	const latency = 50 * time.Millisecond
	root, _ := subjects.ParseAgent("a")
	w := newWorld(b, false, 200, fan(5, latency), benchAgent("a", "b"), benchAgent("b", "c"), benchAgent("c", "d"), benchAgent("d"))
	w.result(b, root)
	for b.Loop() {
		if o := w.result(b, root); o.Subtree.Runs != 156 {
			b.Fatalf("%d runs", o.Subtree.Runs)
		}
	}
	ideal := 7 * latency
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/tree")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/ideal.Seconds(), "of-ideal")
}

// BenchmarkOneSlot is fifty trees of depth 5 and fan-out 2 at once, 63 runs each, on a worker with one
// slot: a parent that held it while it waits would never finish.
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
	w := newWorld(b, false, 1, fan(2, 0), agents...)
	for b.Loop() {
		inFlight(trees, trees, func() {
			if o := w.result(b, root); o.Subtree.Runs != 63 {
				b.Errorf("%d runs", o.Subtree.Runs)
			}
		})
	}
	b.ReportMetric(float64(b.N*trees*63)/b.Elapsed().Seconds(), "runs/s")
}
