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
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/subjects"
)

// stand is where workloads run: the bus, the parts, and this process's own
// connection, which submits.
type stand struct {
	cfg   Config
	dial  bus.Dial
	space subjects.Space
	// of the server's store and of nothing else; "" with a server that was
	// there
	dir     string
	server  *child // nil: it was there
	model   *child
	workers []*child
	doing   string // the name of the workload
	// agents that its workers serve beside those of the workloads
	others  int
	overAll int // workers that were ever hired
	conn    *bus.Conn
	raw     *busbench.Exchange
	stop    func() // of the watches

	mu sync.Mutex
	// for an outcome's body, by its subject
	waits map[string]chan []byte
	words chan bus.Stored // what forks tell their parents
}

// set builds a stand. The caller clears it away.
func set(ctx context.Context, cfg Config) (_ *stand, err error) {
	s := &stand{
		cfg:   cfg,
		dial:  cfg.Dial,
		waits: map[string]chan []byte{},
		words: make(chan bus.Stored, 1<<16),
		stop:  func() {},
	}
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
	if s.raw, err = busbench.NewExchange(ctx, s.conn, cfg.Replicas); err != nil {
		return s, err
	}
	return s, s.watch(ctx)
}

// empty refuses a prefix that somebody has runs under: at the end all that is
// there is removed.
func (s *stand) empty(ctx context.Context) error {
	v, err := busbench.VolumeOf(ctx, s.conn)
	if errors.Is(err, bus.ErrNoStream) {
		return nil
	}
	if err == nil && v.Last > 0 {
		err = fmt.Errorf(
			"there are runs under the prefix %s, and all that is there is removed at the end: choose another one",
			s.space.Prefix(),
		)
		s.conn.Close()
		s.conn = nil // so that nothing is
	}
	return err
}

func (s *stand) watch(ctx context.Context) error {
	ended := func(m bus.Stored) {
		s.mu.Lock()
		c := s.waits[m.Subject]
		delete(s.waits, m.Subject)
		s.mu.Unlock()
		if c != nil {
			c <- m.Body
		}
	}
	var stops []func()
	s.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	for filter, take := range map[string]func(bus.Stored){
		s.space.Results(): ended,
		s.space.Prefix() + ".run." + caller + ".*.r.in.>": ended,
		s.space.Prefix() + ".run.lead.*.r.in.mail.*":      func(m bus.Stored) { s.words <- m },
	} {
		stop, err := s.conn.Watch(s.space.Live(filter), take)
		if err != nil {
			return err
		}
		stops = append(stops, stop)
	}
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

// hire makes it so many workers, in place of those that there are, whose model
// is over HTTP or in their processes.
func (s *stand) hire(ctx context.Context, n int, overHTTP bool, raw ...group) error {
	err := s.dismiss()
	o := order{
		Role:    worker,
		Dial:    dialOf(s.dial),
		Prefix:  s.space.Prefix(),
		Slots:   s.cfg.Slots,
		Others:  s.others,
		Raw:     raw,
		Latency: s.cfg.Latency,
	}
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
	// when it has answered, they are there
	_, err = s.tree(ctx, "leaf")
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
			err = errors.Join(err, busbench.Drop(context.WithoutCancel(ctx), s.conn))
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

// caller is an agent that nobody serves.
const caller = "caller"

// leaf runs an agent as a sub-agent of such a run: one stored call, as its
// parent's worker writes it, one stored outcome. Its parent would read of that
// as much as raw requests do here.
func (s *stand) leaf(ctx context.Context) error {
	parent, err := s.fresh(caller)
	if err != nil {
		return err
	}
	child, err := s.fresh("leaf")
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

// tree runs an agent as a root, without the submission in front of it and
// without a timer: one stored call, one stored outcome.
func (s *stand) tree(ctx context.Context, agent string) (o run.Outcome, err error) {
	r, err := s.fresh(agent)
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

// fresh is the root of a new tree.
func (s *stand) fresh(agent string) (r subjects.Run, err error) {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		return r, err
	}
	id, err := subjects.ParseTree(bus.NewID())
	return s.space.Run(a, id, subjects.Root), err
}

// call calls a run and waits for the body of its outcome.
func (s *stand) call(ctx context.Context, r subjects.Run, head subjects.Header) ([]byte, error) {
	done := make(chan []byte, 1)
	s.mu.Lock()
	s.waits[head.Reply] = done
	s.mu.Unlock()
	if err := s.begin(ctx, r, head); err != nil {
		return nil, err
	}
	select {
	case body := <-done:
		return body, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin stores the call of a run.
func (s *stand) begin(ctx context.Context, r subjects.Run, head subjects.Header) error {
	head.Tree, head.Path, head.MaxDepth, head.Deadline = r.Tree, r.Path, subjects.MaxDepth, time.Now().Add(
		24*time.Hour,
	)
	_, err := s.conn.Write(
		ctx,
		bus.Message{
			Subject: r.Call(),
			Header:  head.Pairs(),
			Body:    []byte(`{"task":"hello"}`),
			Fence:   bus.After(r.Call(), 0),
		},
	)
	return err
}

// meter is what was used and stored up to a moment.
type meter struct {
	server, workers usage
	busbench.Volume
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
	m.Volume, err = busbench.VolumeOf(ctx, s.conn)
	return m, err
}

// since is what was used and stored since an earlier moment; peaks are those of
// all the time.
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
