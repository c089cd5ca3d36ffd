package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/subjects"
)

// testbed is where workloads run: the bus, the processes, and this process's
// own connection, which writes the calls.
type testbed struct {
	cfg   Config
	dial  bus.Dial
	space subjects.Space
	// dir holds the store of the benchmark's own server; "": there is none.
	dir string
	// server is the benchmark's own; nil: attached to a running one.
	server *process
	// claimed says that the prefix was unused when the benchmark began.
	claimed bool
	model   *process
	workers []*process
	// workload is the name of the present workload.
	workload string
	// extraAgents is the number of agents of a worker beside those of the
	// workloads.
	extraAgents int
	// started is the number of workers started so far.
	started int
	conn    *bus.Conn
	raw     *busbench.Exchange

	mu sync.Mutex
	// waits holds a channel for the body of each awaited outcome, by its
	// subject.
	waits map[string]chan []byte
	// idle receives the idle notices of forks.
	idle chan bus.Stored
	// signatures counts the outcomes with a signature.
	signatures atomic.Int64
}

// newTestbed starts the server and the model, and provisions the bus. The
// caller closes the testbed, unless there is an error.
func newTestbed(ctx context.Context, cfg Config) (_ *testbed, err error) {
	s := &testbed{
		cfg:   cfg,
		dial:  cfg.Dial,
		waits: map[string]chan []byte{},
		idle:  make(chan bus.Stored, 1<<16),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.space, err = subjects.NewSpace(cfg.Prefix); err != nil {
		return s, err
	}
	if !cfg.Attached {
		if s.dir, err = os.MkdirTemp("", "axe-bench-"); err != nil {
			return s, err
		}
		if err = s.startServer(ctx, "127.0.0.1:0"); err != nil {
			return s, err
		}
		s.dial = bus.Dial{URL: s.server.url, NKey: keyFile(s.dir)}
	}
	if s.model, err = s.startProcess(ctx, processConfig{Role: model, Latency: cfg.Latency}); err != nil {
		return s, err
	}
	if s.conn, err = bus.Open(ctx, bus.Config{Dial: s.dial, Space: s.space}); err != nil {
		return s, err
	}
	if err = s.claim(ctx); err != nil {
		return s, err
	}
	streams := bus.Provision{Replicas: cfg.Replicas, Partitions: cfg.Partitions}
	if cfg.Sync {
		streams.Sync = bus.SyncAlways
	}
	if err = s.conn.Provision(ctx, streams); err != nil {
		return s, err
	}
	s.space = s.conn.Space()
	if s.raw, err = busbench.NewExchange(ctx, s.conn, cfg.Replicas); err != nil {
		return s, err
	}
	return s, s.watch(ctx)
}

// claim refuses a prefix that is in use: the benchmark removes all streams
// below its prefix at the end. Without a claim it removes none.
func (s *testbed) claim(ctx context.Context) error {
	used, err := busbench.InUse(ctx, s.conn)
	if err != nil {
		return err
	}
	if used != "" {
		return fmt.Errorf("prefix %s must be unused, since all streams below it are removed at the end: %s is in use",
			s.space.Prefix(), used)
	}
	s.claimed = true
	return nil
}

func (s *testbed) watch(ctx context.Context) error {
	ended := func(m bus.Stored) {
		if m.Header.Get(subjects.HeaderSignature) != "" {
			s.signatures.Add(1)
		}
		s.mu.Lock()
		c := s.waits[m.Subject]
		delete(s.waits, m.Subject)
		s.mu.Unlock()
		if c != nil {
			c <- m.Body
		}
	}
	for filter, take := range map[string]func(bus.Stored){
		s.space.Results(): ended,
		s.space.Prefix() + ".run." + caller + ".*.r.in.>": ended,
		s.space.Prefix() + ".run.lead.*.r.in.mail.*":      func(m bus.Stored) { s.idle <- m },
	} {
		if err := s.conn.Watch(ctx, s.space.Live(filter), take); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return s.conn.Flush(ctx)
}

func (s *testbed) startProcess(ctx context.Context, o processConfig) (*process, error) {
	if s.cfg.Profile != "" {
		o.Profile = filepath.Join(s.cfg.Profile, strings.Trim(s.workload+"-"+string(o.Role)+"-"+o.Name, "-"))
	}
	return startProcess(ctx, s.cfg.Command, o, s.cfg.Stderr)
}

// startServer starts the benchmark's own server on its store.
func (s *testbed) startServer(ctx context.Context, listen string) (err error) {
	s.server, err = s.startProcess(ctx, processConfig{
		Role: server, StoreDir: s.dir, Sync: s.cfg.Sync, Listen: listen,
	})
	return err
}

// startWorkers replaces all workers by n new ones. Their model is behind HTTP,
// or in their own processes.
func (s *testbed) startWorkers(ctx context.Context, n int, overHTTP bool, raw ...rawServers) error {
	o := s.workerConfig(overHTTP)
	o.Raw = raw
	return s.replaceWorkers(ctx, n, o)
}

// replaceWorkers replaces all workers by n new ones.
func (s *testbed) replaceWorkers(ctx context.Context, n int, o processConfig) error {
	if err := s.stopWorkers(); err != nil {
		return err
	}
	for range n {
		if err := s.addWorker(ctx, o); err != nil {
			return err
		}
	}
	// The workers are ready when one of them has answered.
	_, err := s.tree(ctx, "leaf")
	return err
}

// workerConfig is the configuration of a worker.
func (s *testbed) workerConfig(overHTTP bool) processConfig {
	o := processConfig{
		Role: worker, Dial: s.dial, Prefix: s.space.Prefix(), Slots: s.cfg.Slots,
		ExtraAgents: s.extraAgents, Latency: s.cfg.Latency,
	}
	if overHTTP {
		o.ModelURL, o.Latency = s.model.url, 0
	}
	return o
}

// addWorker starts one more worker.
func (s *testbed) addWorker(ctx context.Context, o processConfig) error {
	s.started++
	o.Name = fmt.Sprint("w", s.started)
	c, err := s.startProcess(ctx, o)
	if err == nil {
		s.workers = append(s.workers, c)
	}
	return err
}

func (s *testbed) stopWorkers() (err error) {
	for _, w := range s.workers {
		err = errors.Join(err, w.end())
	}
	s.workers = nil
	return err
}

// close ends all processes. On a running bus it removes the streams of its
// prefix.
func (s *testbed) close(ctx context.Context) error {
	err := s.stopWorkers()
	if s.conn != nil {
		if s.server == nil && s.claimed {
			err = errors.Join(err, busbench.Drop(context.WithoutCancel(ctx), s.conn))
		}
		s.conn.Close()
	}
	for _, c := range []*process{s.model, s.server} {
		if c != nil {
			err = errors.Join(err, c.end())
		}
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// caller is an agent that no worker serves.
const caller = "caller"

// leaf runs an agent as a child of a run of caller: one stored call, as the
// worker of a parent writes it, and one stored outcome. A parent would read as
// much of that as a raw request does.
func (s *testbed) leaf(ctx context.Context) error { return s.leafOf(ctx, "leaf") }

// leafOf is leaf for any agent with a model that answers at once.
func (s *testbed) leafOf(ctx context.Context, agent string) error {
	parent, err := s.newRoot(caller)
	if err != nil {
		return err
	}
	child, err := s.newRoot(agent)
	if err != nil {
		return err
	}
	child.Tree, child.Path = parent.Tree, parent.Path.Child(1, 0)
	body, err := s.call(ctx, child, subjects.Header{Parent: parent.Agent, Depth: 1, Reply: parent.Reply(1, 0)})
	if err == nil && !bytes.Contains(body, []byte(`"status":"completed"`)) {
		err = fmt.Errorf("%s: %s", child, body)
	}
	return err
}

// tree runs an agent as a root, without a submission and without a timer. A
// leaf is then one stored call and one stored outcome.
func (s *testbed) tree(ctx context.Context, agent string) (o run.Outcome, err error) {
	r, err := s.newRoot(agent)
	if err != nil {
		return o, err
	}
	body, err := s.call(ctx, r, subjects.Header{Reply: s.space.Result(r.Agent, r.Tree)})
	if err != nil {
		return o, err
	}
	if o, err = run.DecodeOutcome(body); err == nil && o.Status != run.StatusCompleted {
		err = fmt.Errorf("%s: %s", r, o.Error)
	}
	return o, err
}

// newRoot addresses the root of a new tree.
func (s *testbed) newRoot(agent string) (r subjects.Run, err error) {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		return r, err
	}
	id, err := subjects.ParseTree(bus.NewID())
	return s.space.Run(a, id, subjects.Root), err
}

// await returns a channel for the body of the outcome at a subject.
func (s *testbed) await(reply string) <-chan []byte {
	done := make(chan []byte, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[reply] = done
	return done
}

// call calls a run and waits for the body of its outcome.
func (s *testbed) call(ctx context.Context, r subjects.Run, head subjects.Header) ([]byte, error) {
	done := s.await(head.Reply)
	if err := s.storeCall(ctx, r, head); err != nil {
		return nil, err
	}
	return receive(ctx, done)
}

func receive(ctx context.Context, done <-chan []byte) ([]byte, error) {
	select {
	case body := <-done:
		return body, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// submit submits a task to an agent, and waits for the outcome of the tree.
func (s *testbed) submit(ctx context.Context, agent string) error {
	r, err := s.newRoot(agent)
	if err != nil {
		return err
	}
	done := s.await(s.space.Result(r.Agent, r.Tree))
	_, err = s.conn.Write(ctx, bus.Message{Subject: s.space.Submit(r.Agent, r.Tree), Body: []byte("hello")})
	if err != nil {
		return err
	}
	body, err := receive(ctx, done)
	if err == nil && !bytes.Contains(body, []byte(`"status":"completed"`)) {
		err = fmt.Errorf("%s: %s", r, body)
	}
	return err
}

// storeCall stores the call of a run.
func (s *testbed) storeCall(ctx context.Context, r subjects.Run, head subjects.Header) error {
	head.Tree = r.Tree
	head.Path = r.Path
	head.MaxDepth = subjects.MaxDepth
	head.Deadline = time.Now().Add(24 * time.Hour)
	_, err := s.conn.Write(ctx, bus.Message{
		Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"hello"}`), Fence: bus.After(r.Call(), 0),
	})
	return err
}

// meter is the usage of the server and the workers, and the size of the
// streams, at one time. The workers' Peak is that of the largest worker.
type meter struct {
	server, workers usage
	busbench.Volume
}

func (s *testbed) meter(ctx context.Context) (m meter, err error) {
	for _, w := range s.workers {
		u, err := w.used()
		if err != nil {
			return m, fmt.Errorf("a worker: %w", err)
		}
		m.workers.CPU += u.CPU
		m.workers.Read += u.Read
		m.workers.Peak = max(m.workers.Peak, u.Peak)
	}
	if s.server != nil {
		if m.server, err = s.server.used(); err != nil {
			return m, fmt.Errorf("the server: %w", err)
		}
	}
	m.Volume, err = busbench.VolumeOf(ctx, s.conn)
	return m, err
}

// add adds the difference of two meters. Peaks are those of the whole time.
func (m *meter) add(before, after meter) {
	m.server.CPU += after.server.CPU - before.server.CPU
	m.workers.CPU += after.workers.CPU - before.workers.CPU
	m.workers.Read += after.workers.Read - before.workers.Read
	m.Last += after.Last - before.Last
	m.Submitted += after.Submitted - before.Submitted
	m.Bytes += after.Bytes - before.Bytes
	m.server.Peak = max(m.server.Peak, after.server.Peak)
	m.workers.Peak = max(m.workers.Peak, after.workers.Peak)
}
