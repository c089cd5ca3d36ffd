package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	stored "github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Config says how a worker works.
type Config struct {
	// of the worker, in log messages and outcomes; "" makes one up
	Name string
	// required: a provider for "provider/model"
	Open func(model string) (p provider.Provider, name string, err error)
	// "provider/model" in place of every agent's own; "" leaves them
	Model string
	// changes the definition of an agent for roots alone; nil leaves it
	Root func(configs.Agent) configs.Agent
	// model calls at once; 0: 64
	Slots int

	// RateLimit is the account that a model is asked with, a name for its
	// provider and key, and what all workers together may ask of that.
	// Where no limit is set, or with nil, there is none.
	RateLimit func(model string) (account string, s ratelimit.Settings)

	// nobody can answer: agents whose supervision needs a person are
	// refused
	Unattended bool

	// of agents that have one; nil: none has
	Memory memory.Store

	// the longest that a submitted tree may take; 0: 1 h
	Timeout time.Duration
	// what model calls in flight get when the worker drains; 0: 30 s
	Grace time.Duration
	// deliveries of a trigger before its run is given up; 0: 20
	Poison int
	// bytes of memory for runs that wait, each for a minute at most; 0: 64
	// MiB
	Cache int

	Log *slog.Logger // nil: discard
}

// Defaults of Config.
const (
	DefaultSlots   = 64
	DefaultTimeout = time.Hour
	DefaultGrace   = 30 * time.Second
	DefaultPoison  = 20
	DefaultCache   = 64 << 20
)

func (c Config) validate() (Config, error) {
	if c.Open == nil {
		return c, errors.New("agentd: Config.Open is required")
	}
	if c.Slots < 0 || c.Timeout < 0 || c.Grace < 0 || c.Poison < 0 || c.Cache < 0 {
		return c, errors.New("agentd: a limit is negative")
	}
	c.Slots = cmp.Or(c.Slots, DefaultSlots)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Poison = cmp.Or(c.Poison, DefaultPoison)
	c.Cache = cmp.Or(c.Cache, DefaultCache)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Name == "" {
		c.Name = "w" + bus.NewID()
	}
	return c, nil
}

// Worker serves agents on a bus. Make one with New.
type Worker struct {
	cfg     Config
	conn    *bus.Conn
	runs    stored.Reader
	log     *slog.Logger
	slots   *slots
	intake  *intake
	tombs   *tombstones
	names   *directory
	cache   *cache
	gates   *gates
	ledgers *ledgers

	// full while an agent is asked for a call for one of the last slots
	polling  chan struct{}
	inbound  atomic.Int64 // inbound messages at hand
	draining atomic.Bool
	leaving  chan struct{} // closed when draining begins
	// goroutines at desks, and submissions in hand
	handlers sync.WaitGroup
	idle     chan *desk // taken by goroutines without a desk

	mu     sync.Mutex
	desks  map[subjects.Run]*desk
	agents map[subjects.Agent]configs.Agent
	// agents whose files are wrong, and what is
	broken map[subjects.Agent]string
	// agents that were served, and until when
	removed map[subjects.Agent]time.Time
	// agents that went away, or wrong, since the known agents were told
	parted  map[subjects.Agent]bool
	changed chan struct{}   // holds a token after Serve
	pulled  bool            // nothing is asked for any more
	returns []*bus.Delivery // kept until then
}

// New makes a worker on an open connection whose streams are provisioned.
func New(conn *bus.Conn, cfg Config) (*Worker, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Worker{
		cfg: cfg, conn: conn, runs: stored.New(conn), log: cfg.Log.With(slog.String(keyWorker, cfg.Name)),
		slots: newSlots(
			cfg.Slots,
		), intake: newIntake(), tombs: newTombstones(), names: newDirectory(), cache: newCache(cfg.Cache), gates: newGates(), ledgers: newLedgers(),
		desks: map[subjects.Run]*desk{}, agents: map[subjects.Agent]configs.Agent{}, removed: map[subjects.Agent]time.Time{}, parted: map[subjects.Agent]bool{}, changed: make(chan struct{}, 1), leaving: make(chan struct{}), idle: make(chan *desk), polling: make(chan struct{}, 1),
	}, nil
}

// Name is the worker's name.
func (w *Worker) Name() string { return w.cfg.Name }

// errDraining aborts what is in hand when the grace of a drain is over.
var errDraining = errors.New("the worker is draining")

// Run serves until ctx ends. Then it drains: it stops pulling, lets model calls
// end within the grace or aborts them, gives back what is unfinished, and
// returns nil. An error means that it cannot go on.
//
// Everything pulled is handled under a context of its own, so that the end of
// ctx does not cut off a turn that is about to be written.
func (w *Worker) Run(ctx context.Context) error {
	// how many streams of runs there are
	if err := w.conn.Provisioned(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		return err
	}
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	// what every handler leans on: if one ends, all do
	base, work := errgroup.WithContext(work)
	known := make(chan struct{})
	base.Go(func() error { return w.conn.KeepLeases(work) })
	// ends after the last request has
	gating, closeGates := context.WithCancel(context.WithoutCancel(ctx))
	base.Go(func() error { return w.gates.run(gating) })
	base.Go(func() error { return w.tombs.follow(work, w.conn) })
	base.Go(func() error { return w.interrupts(work) })
	base.Go(func() error { return w.names.follow(work, w.conn, w.noted, func() { close(known) }) })

	if w.prepared(ctx, work, known) {
		w.work(ctx, work, abort)
	}
	failed := work.Err() != nil && !errors.Is(context.Cause(work), errDraining)
	closeGates()
	abort(errDraining)
	if err := base.Wait(); failed {
		return err
	}
	return nil
}

// prepared waits until the worker knows the known agents and its own, and has
// announced these: a submission could find them unknown otherwise. False means
// that there is no more to do.
func (w *Worker) prepared(ctx, work context.Context, known <-chan struct{}) bool {
	select {
	case <-known:
	case <-work.Done():
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.changed:
		w.announceAll(ctx)
		w.wake()
		return true
	case <-work.Done():
		return false
	case <-ctx.Done():
		return false
	}
}

// work takes triggers until ctx or work ends, and drains.
func (w *Worker) work(ctx, work context.Context, abort context.CancelCauseFunc) {
	pulling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var pulls sync.WaitGroup
	pulls.Go(func() { w.serveSubmissions(pulling, work) })
	for part := range w.conn.Space().Partitions() {
		pulls.Go(func() { w.serveRootEnds(pulling, work, part) })
	}
	pulls.Go(func() { w.reconcile(pulling, work) })
	select {
	case <-ctx.Done():
	case <-work.Done():
		stop(context.Cause(work))
	}
	w.draining.Store(true)
	close(w.leaving)
	grace := time.AfterFunc(w.cfg.Grace, func() { abort(errDraining) })
	defer grace.Stop()
	pulls.Wait()
	w.giveBackAll(work)
	w.handlers.Wait()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.conn.Flush(flush); err != nil {
		w.log.WarnContext(ctx, "last acknowledgements may be lost", slog.Any(keyError, err))
	}
}

// Broken is an agent that cannot be served, since its file is wrong.
type Broken struct {
	Name    subjects.Agent
	Problem string // one line, for whoever calls it
}

// Serve sets the agents that the worker serves from now on, and those that it
// would serve if their files were right: who calls one of these is told what is
// wrong. Runs under way keep what they were started with; calls of an agent
// that is no longer there go to a worker that has it, and are refused if none
// has. Run takes nothing before the first call of Serve.
func (w *Worker) Serve(agents []configs.Agent, broken ...Broken) error {
	set := make(map[subjects.Agent]configs.Agent, len(agents))
	for _, a := range agents {
		name, err := subjects.ParseAgent(a.Name)
		if err != nil {
			return err
		}
		if _, twice := set[name]; twice {
			return fmt.Errorf("agent %s is defined twice", name)
		}
		set[name] = a
	}
	w.mu.Lock()
	was, wrong := w.agents, w.broken
	w.agents, w.broken = set, map[subjects.Agent]string{}
	for _, b := range broken {
		if _, served := set[b.Name]; !served {
			w.broken[b.Name] = b.Problem
			w.parted[b.Name] = w.parted[b.Name] || wrong[b.Name] != b.Problem
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(wrong))) {
		w.removed[name] = time.Now()
		if _, still := w.broken[name]; !still {
			w.parted[name] = true
		}
	}
	for name := range set {
		delete(w.removed, name)
		delete(w.parted, name)
	}
	for name := range w.broken {
		delete(w.removed, name)
	}
	w.mu.Unlock()
	w.wake()
	return nil
}

// WaitIdle waits until nothing that the worker has taken is in hand any more: what
// it does last for a run, it does after the outcome is stored.
func (w *Worker) WaitIdle(ctx context.Context) error {
	for {
		w.mu.Lock()
		n := len(w.desks)
		w.mu.Unlock()
		if n == 0 {
			return nil
		}
		if err := bus.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// wake leaves a token for who waits for a change of the agents.
func (w *Worker) wake() { poke(w.changed) }

func (w *Worker) definitions() map[subjects.Agent]configs.Agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.agents)
}

func (w *Worker) definition(a subjects.Agent) (configs.Agent, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	def, ok := w.agents[a]
	return def, ok
}
