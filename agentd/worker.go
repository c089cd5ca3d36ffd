package agentd

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/subjects"
)

// Worker serves agents on a bus. New makes one.
type Worker struct {
	cfg  Config
	conn *bus.Conn
	// runs reads the messages of runs.
	runs history.Reader
	log  *slog.Logger

	agents    *agentSet
	toolsets  *toolsets
	directory *directory
	slots     *slots
	toolSlots *slots
	admission *admission
	cancels   *cancellations
	cache     *cache
	limiters  *ratelimit.Limiters
	tallies   *budget.Tallies
	registry  presence.Registry
	// entryChanged is ready when the worker's entry among the workers has
	// changed.
	entryChanged chan struct{}
	checks       servedChecks
	activity     *activity
	trees        *treeLog
	late         *lateTimers
	// forwarded is ready when a submission was acknowledged.
	forwarded chan struct{}

	// polling is full while one agent is polled for a call for a last slot.
	polling chan struct{}
	// opening holds a token for each consumer that is being opened.
	opening chan struct{}
	// activating holds a token for each source that is being made active.
	activating chan struct{}
	// pulled is the number of sources that the worker pulls from.
	pulled       atomic.Int64
	pullFailures *failures
	// inbound is the number of inbound messages that the worker has taken
	// and not finished. Those behind a model call do not count.
	inbound  atomic.Int64
	draining atomic.Bool
	// drainBegun is closed when the worker begins to drain.
	drainBegun chan struct{}
	// handlers counts the goroutines that a drain waits for, such as those
	// of run queues and submissions.
	handlers sync.WaitGroup
	// spare hands a run queue to a goroutine that has just emptied another.
	spare chan *runQueue

	mu     sync.Mutex
	queues map[subjects.Run]*runQueue
	// pullsEnded says that no request for messages stands at the server any
	// more.
	pullsEnded bool
	// returns are the deliveries that a draining worker gives back when its
	// pulls have ended.
	returns []*bus.Delivery
}

// New makes a worker on an open connection, which stays the caller's to close.
// It sends no request. The error says which field of cfg is wrong.
func New(conn *bus.Conn, cfg Config) (*Worker, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	log := cfg.Log.With(slog.String(keyWorker, cfg.Name))
	w := &Worker{
		cfg: cfg, conn: conn, runs: history.New(conn), log: log,

		agents: newAgentSet(), directory: newDirectory(), slots: newSlots(cfg.Slots),
		toolSlots: newSlots(cfg.ToolSlots), admission: newAdmission(), cancels: newCancellations(),
		cache: newCache(cfg.Cache), limiters: ratelimit.New(conn, cfg.Name, log),
		tallies: budget.New(conn), registry: presence.New(conn), entryChanged: make(chan struct{}, 1),
		trees: &treeLog{log: cfg.TreeLog.With(slog.String(keyWorker, cfg.Name)), prices: cfg.Prices},

		activity: newActivity(conn.Activity(), cfg.Name), opening: make(chan struct{}, maxOpening),
		activating: make(chan struct{}, maxActivations), pullFailures: &failures{log: log},

		polling: make(chan struct{}, 1), drainBegun: make(chan struct{}), spare: make(chan *runQueue),
		queues: map[subjects.Run]*runQueue{},
	}
	w.toolsets = &toolsets{w: w, added: make(chan struct{}, 1)}
	w.late = newLateTimers(w)
	w.forwarded = make(chan struct{}, 1)
	return w, nil
}

// Name is the worker's name.
func (w *Worker) Name() string { return w.cfg.Name }

// errDraining ends the waits of runs when the worker begins to drain, and
// aborts model calls when the grace is over.
var errDraining = errors.New("the worker is draining")

// Run serves until ctx ends, then drains and returns nil. To drain, it stops
// pulling, lets model calls end within the grace or aborts them, and gives
// unfinished work back. An error means that it cannot go on. The error wraps
// bus.ErrNoStream if the streams are not provisioned, and ErrStreamLost if a
// stream of runs was removed.
//
// Everything that was pulled is handled under a context of its own, so that the
// end of ctx does not cut off a turn that is about to be written.
func (w *Worker) Run(ctx context.Context) error {
	clocks := newClockWatch(w)
	if err := clocks.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		return err
	}
	w.conn.Health.Guard()
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	// Every handler needs all of these goroutines: if one ends, all end.
	base, work := errgroup.WithContext(work)
	known, entered := make(chan struct{}), make(chan struct{})
	base.Go(func() error { return w.conn.KeepLeases(work) })
	base.Go(func() error { return clocks.run(work) })
	streams := streamWatch{
		conn: w.conn, log: w.log, longest: w.cfg.Timeout, removed: w.cache.clear,
	}
	base.Go(func() error { return streams.run(work) })
	base.Go(func() error { return w.late.run(work) })
	base.Go(func() error { return removeForwarded(work, w) })
	// These three end after the last request has ended.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	base.Go(func() error { return w.limiters.Run(serving) })
	base.Go(func() error { return w.keepPresence(serving, func() { close(entered) }) })
	base.Go(func() error { return w.toolsets.run(serving) })
	base.Go(func() error { return w.cancels.follow(work, w.conn) })
	base.Go(func() error { return w.followInterrupts(work) })
	base.Go(func() error { return bus.ServeTreeReads(work, w.conn) })
	base.Go(func() error {
		return w.directory.follow(work, w.conn, w.directoryChanged, func() { close(known) })
	})

	if w.prepared(ctx, work, known, entered) {
		w.work(ctx, work, abort)
	}
	failed := work.Err() != nil && !errors.Is(context.Cause(work), errDraining)
	endServing()
	abort(errDraining)
	err := base.Wait()
	if failed {
		return err
	}
	return nil
}

// prepared waits until the worker knows the directory and its own agents, and
// has announced them: otherwise a submission could find them unknown. The other
// workers know of it then. It returns false if the worker has to end.
func (w *Worker) prepared(ctx, work context.Context, known, entered <-chan struct{}) bool {
	for _, ready := range []<-chan struct{}{known, w.agents.changed, entered} {
		select {
		case <-ready:
		case <-work.Done():
			return false
		case <-ctx.Done():
			return false
		}
	}
	w.toolsets.awaitListed(ctx)
	w.announceAll(ctx)
	pause.Notify(w.agents.changed)
	return true
}

// flushTimeout bounds the wait for the last acknowledgements to leave the
// process.
const flushTimeout = 5 * time.Second

// work takes triggers until ctx or work ends, and drains.
func (w *Worker) work(ctx, work context.Context, abort context.CancelCauseFunc) {
	w.cfg.Metrics.Measure(func(ctx context.Context) metrics.Load { return loadOf(ctx, w) })
	defer w.cfg.Metrics.Measure(nil)
	pulling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var pulls sync.WaitGroup
	pulls.Go(func() { w.serveSubmissions(pulling, work) })
	for partition := range w.conn.Space().Partitions() {
		for _, c := range sharedConsumers(w.conn.Space(), partition) {
			pulls.Go(func() { w.pullInbound(pulling, work, activeAgents{w}.opens(c), sharedPerRequest, func() {}) })
		}
	}
	pulls.Go(func() { w.serveAgents(pulling, work) })
	select {
	case <-ctx.Done():
	case <-work.Done():
		stop(context.Cause(work))
	}
	w.draining.Store(true)
	close(w.drainBegun)
	grace := time.AfterFunc(w.cfg.Grace, func() { abort(errDraining) })
	defer grace.Stop()
	pulls.Wait()
	w.giveBackAll(work)
	w.handlers.Wait()
	w.late.setAll(work)
	w.trees.endWindow(ctx)
	w.pullFailures.flush()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := w.conn.Flush(flush); err != nil {
		w.log.WarnContext(ctx, "last acknowledgements may be lost", slog.Any(keyError, err))
	}
}

// Works returns when it has held the locks that all work of a worker passes
// through. It does not return for a worker that has locked itself up. It asks
// nothing of the bus: a worker without a server works, and waits for one.
func Works(w *Worker) {
	for _, l := range []sync.Locker{&w.mu, &w.agents.mu, &w.admission.mu, &w.cancels.mu, &w.cache.mu} {
		l.Lock()
		l.Unlock() //nolint:staticcheck // held for this moment alone
	}
}

// WaitIdle waits until the worker has finished all triggers in its run queues.
// That is later than an outcome: the worker's last work for a run follows it.
// It does not wait for submissions, nor for the first queue of a run that has a
// second one (enqueue). The error is the cause of the end of ctx.
func (w *Worker) WaitIdle(ctx context.Context) error {
	for {
		w.mu.Lock()
		n := len(w.queues)
		w.mu.Unlock()
		if n == 0 {
			return nil
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}
