package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// stand is where workloads run: the bus, the parts, and this process's own connection, which submits.
type stand struct {
	cfg     Config
	dial    bus.Dial
	space   subjects.Space
	dir     string // of the server's store and of nothing else; "" with a server that was there
	server  *child // nil: it was there
	model   *child
	workers []*child
	doing   string // the name of the workload
	others  int    // agents that its workers serve beside those of the workloads
	overAll int    // workers that were ever hired
	conn    *bus.Conn
	raw     *bus.Raw
	stop    func() // of the watches

	mu    sync.Mutex
	waits map[string]chan run.Outcome // by tree
	words chan bus.Stored             // what forks tell their parents
}

// set builds a stand. The caller clears it away.
func set(ctx context.Context, cfg Config) (_ *stand, err error) {
	s := &stand{cfg: cfg, dial: cfg.Dial, waits: map[string]chan run.Outcome{}, words: make(chan bus.Stored, 1<<16), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.clear(ctx))
		}
	}()
	if s.space, err = subjects.NewSpace(cfg.Prefix); err != nil {
		return s, err
	}
	if !cfg.Attached {
		if s.dir, err = os.MkdirTemp("", "axe-bench-"); err != nil {
			return s, err
		}
		if s.server, err = s.spawn(ctx, order{Role: server, StoreDir: s.dir, Sync: cfg.Sync}); err != nil {
			return s, err
		}
		s.dial = bus.Dial{URL: s.server.url}
	}
	if s.model, err = s.spawn(ctx, order{Role: model, Latency: cfg.Latency}); err != nil {
		return s, err
	}
	if s.conn, err = bus.Open(ctx, bus.Config{Dial: s.dial, Space: s.space}); err != nil {
		return s, err
	}
	if err = s.empty(ctx); err != nil {
		return s, err
	}
	if err = s.conn.Provision(ctx, bus.Provision{Replicas: cfg.Replicas, Partitions: cfg.Parts}); err != nil {
		return s, err
	}
	s.space = s.conn.Space()
	if s.raw, err = s.conn.Raw(ctx, cfg.Replicas); err != nil {
		return s, err
	}
	return s, s.watch(ctx)
}

// empty refuses a prefix that somebody has runs under: at the end all that is there is removed.
func (s *stand) empty(ctx context.Context) error {
	v, err := s.conn.Volume(ctx)
	if errors.Is(err, bus.ErrNoStream) {
		return nil
	}
	if err == nil && v.Last > 0 {
		err = fmt.Errorf("there are runs under the prefix %s, and all that is there is removed at the end: choose another one", s.space.Prefix())
		s.conn.Close()
		s.conn = nil // so that nothing is
	}
	return err
}

func (s *stand) watch(ctx context.Context) error {
	results, err := s.conn.Watch(s.space.Live(s.space.Results()), func(m bus.Stored) {
		o, err := run.DecodeOutcome(m.Body)
		if err != nil {
			o = run.Failure(run.KindError, "%v", err)
		}
		tree := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		s.mu.Lock()
		c := s.waits[tree]
		delete(s.waits, tree)
		s.mu.Unlock()
		if c != nil {
			c <- o
		}
	})
	if err != nil {
		return err
	}
	words, err := s.conn.Watch(s.space.Live(s.space.Prefix()+".run.lead.*.r.in.mail.*"), func(m bus.Stored) { s.words <- m })
	if err != nil {
		return err
	}
	s.stop = func() { results(); words() }
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.conn.Flush(ctx)
}

func (s *stand) spawn(ctx context.Context, o order) (*child, error) {
	if s.cfg.Profile != "" {
		o.Profile = filepath.Join(s.cfg.Profile, strings.Trim(s.doing+"-"+string(o.Role)+"-"+o.Name, "-"))
	}
	return spawn(ctx, s.cfg.Command, o, s.cfg.Stderr)
}

// hire makes it so many workers, in place of those that there are, whose model is over HTTP or in their processes.
func (s *stand) hire(ctx context.Context, n int, overHTTP bool, raw ...group) error {
	err := s.dismiss()
	o := order{Role: worker, Dial: dialOf(s.dial), Prefix: s.space.Prefix(), Slots: s.cfg.Slots, Others: s.others, Raw: raw, Latency: s.cfg.Latency}
	if overHTTP {
		o.ModelURL, o.Latency = s.model.url, 0
	}
	for range n {
		s.overAll++
		o.Name = fmt.Sprint("w", s.overAll)
		c, failed := s.spawn(ctx, o)
		if err = errors.Join(err, failed); failed != nil {
			return err
		}
		s.workers = append(s.workers, c)
	}
	if err != nil {
		return err
	}
	_, err = s.tree(ctx, "leaf") // when it has answered, they are there
	return err
}

func (s *stand) dismiss() (err error) {
	for _, w := range s.workers {
		err = errors.Join(err, w.end())
	}
	s.workers = nil
	return err
}

// clear ends all parts and removes all that was stored.
func (s *stand) clear(ctx context.Context) error {
	err := s.dismiss()
	s.stop()
	if s.conn != nil {
		if s.server == nil {
			err = errors.Join(err, s.conn.Drop(context.WithoutCancel(ctx)))
		}
		s.conn.Close()
	}
	for _, c := range []*child{s.model, s.server} {
		if c != nil {
			err = errors.Join(err, c.end())
		}
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// tree runs an agent as a root, without the submission in front of it: one stored call, one stored outcome.
func (s *stand) tree(ctx context.Context, agent string) (run.Outcome, error) {
	_, o, err := s.root(ctx, agent, true)
	return o, err
}

// root calls an agent as a root, and waits for its outcome if that is asked for.
func (s *stand) root(ctx context.Context, agent string, wait bool) (r subjects.Run, o run.Outcome, err error) {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		return r, o, err
	}
	id, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		return r, o, err
	}
	r = s.space.Run(a, id, subjects.Root)
	head := subjects.Header{Tree: id, Path: subjects.Root, MaxDepth: subjects.MaxDepth, Deadline: time.Now().Add(24 * time.Hour), Reply: s.space.Result(a, id)}
	done := make(chan run.Outcome, 1)
	if wait {
		s.mu.Lock()
		s.waits[id.String()] = done
		s.mu.Unlock()
	}
	_, err = s.conn.Write(ctx, bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"hello"}`), Fence: bus.After(r.Call(), 0)})
	if err != nil || !wait {
		return r, o, err
	}
	select {
	case o = <-done:
	case <-ctx.Done():
		return r, o, context.Cause(ctx)
	}
	if o.Status != run.StatusCompleted {
		return r, o, fmt.Errorf("%s: %s", r, o.Error)
	}
	return r, o, nil
}

// meter is what was used and stored up to a moment.
type meter struct {
	server, workers usage
	bus.Volume
}

func (s *stand) meter(ctx context.Context) (m meter, err error) {
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
	m.Volume, err = s.conn.Volume(ctx)
	return m, err
}

// since is what was used and stored since an earlier moment; peaks are those of all the time.
func (m meter) since(b meter) meter {
	m.server.CPU -= b.server.CPU
	m.workers.CPU -= b.workers.CPU
	m.workers.Read -= b.workers.Read
	m.Last -= b.Last
	m.Bytes -= b.Bytes
	return m
}

// and is the sum of two spans.
func (m meter) and(b meter) meter {
	m.server.CPU += b.server.CPU
	m.workers.CPU += b.workers.CPU
	m.workers.Read += b.workers.Read
	m.Last += b.Last
	m.Bytes += b.Bytes
	m.server.Peak, m.workers.Peak = max(m.server.Peak, b.server.Peak), max(m.workers.Peak, b.workers.Peak)
	return m
}
