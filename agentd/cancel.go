package agentd

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Causes that abort a model request, a tool call or a poll of a task.
var (
	errCancelled   = errors.New("cancelled by a cancel message")
	errInterrupted = errors.New(run.TextInterrupted)
)

// cancellations knows the cancelled paths, and the requests in flight. A new
// cancel message aborts the requests that it covers.
type cancellations struct {
	mu sync.Mutex
	// paths has the time of the cancel message of each cancelled path.
	paths map[subjects.Tree]map[subjects.Path]time.Time
	// requests are the model requests, tool calls and polls in flight.
	requests map[subjects.Tree]map[*inFlight]bool
	// pruned is the stream's time of the last pruning of paths.
	pruned time.Time
	// loaded is closed when all cancel messages are known that were stored
	// when the worker began.
	loaded chan struct{}
	// newest has, for each partition, the stream sequence up to which every
	// stored cancel message is known.
	newest map[int]uint64
}

// inFlight is a model request, a tool call or a poll of a task in flight.
type inFlight struct {
	path  subjects.Path
	abort context.CancelCauseFunc
}

func newCancellations() *cancellations {
	return &cancellations{
		loaded: make(chan struct{}), newest: map[int]uint64{}, paths: map[subjects.Tree]map[subjects.Path]time.Time{},
		requests: map[subjects.Tree]map[*inFlight]bool{},
	}
}

// follow learns the cancel messages until ctx ends.
func (c *cancellations) follow(ctx context.Context, conn *bus.Conn) error {
	return conn.Follow(ctx, conn.Space().Cancels(), func(m bus.Stored) {
		if at, err := conn.Space().Parse(m.Subject); err == nil && !m.IsAnswer() {
			if !m.IsImported() { // a record, or a claim to be one
				c.add(at.Run.Tree, at.Run.Path, m.Time)
			}
			c.knownUpTo(at.Run.Partition(), m.Seq)
			c.prune(m.Time, conn.MaxAge())
		}
	}, func() { close(c.loaded) })
}

// waitLoaded waits until all cancel messages are known that were stored when
// the worker began, or until ctx ends. The server delivers those of a stream
// with a million runs in a tenth of a second. waitLoaded returns at once for a
// root: only the root's own cancel message covers it, and every read of the
// root includes that message.
func (c *cancellations) waitLoaded(ctx context.Context, r subjects.Run) error {
	if r.Path.IsRoot() {
		return nil
	}
	select {
	case <-c.loaded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isLoaded reports whether all cancel messages are known that were stored when
// the worker began.
func (c *cancellations) isLoaded() bool {
	select {
	case <-c.loaded:
		return true
	default:
		return false
	}
}

// add notes a cancelled path, and aborts the requests of the runs that it
// covers.
func (c *cancellations) add(tree subjects.Tree, path subjects.Path, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths[tree] == nil {
		c.paths[tree] = map[subjects.Path]time.Time{}
	}
	c.paths[tree][path] = at
	for r := range c.requests[tree] {
		if path.Covers(r.path) {
			r.abort(errCancelled)
		}
	}
}

// interrupt aborts the requests of a run.
func (c *cancellations) interrupt(r subjects.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for request := range c.requests[r.Tree] {
		if request.path == r.Path {
			request.abort(errInterrupted)
		}
	}
}

// knownUpTo notes that every stored cancel message up to a sequence is known.
// The caller does not pass the sequence of a cancel message that this worker
// wrote: earlier ones may not have been delivered to this worker yet.
func (c *cancellations) knownUpTo(partition int, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest[partition] = max(c.newest[partition], seq)
}

// seen returns the sequence up to which every cancel message is known that is
// on the stream of a run.
func (c *cancellations) seen(r subjects.Run) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest[r.Partition()]
}

// pruneInterval is the time between two prunings of cancelled paths.
const pruneInterval = time.Hour

// prune forgets the paths of cancel messages that the stream has dropped: those
// older than maxAge.
func (c *cancellations) prune(now time.Time, maxAge time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if maxAge == 0 || now.Sub(c.pruned) < pruneInterval {
		return
	}
	c.pruned = now
	for tree, paths := range c.paths {
		maps.DeleteFunc(paths, func(_ subjects.Path, at time.Time) bool { return now.Sub(at) > maxAge })
		if len(paths) == 0 {
			delete(c.paths, tree)
		}
	}
}

// isCancelled reports whether a run, or a run above it, is cancelled.
func (c *cancellations) isCancelled(r subjects.Run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.covers(r)
}

// covers is isCancelled for a caller that holds the lock.
func (c *cancellations) covers(r subjects.Run) bool {
	for p := range c.paths[r.Tree] {
		if p.Covers(r.Path) {
			return true
		}
	}
	return false
}

// watch registers a request of a run. A cancel message over the run aborts the
// request, at once if the message is known already. Seen is the sequence up to
// which all cancel messages were known at the registration. The caller calls
// done after the request.
func (c *cancellations) watch(r subjects.Run, abort context.CancelCauseFunc) (seen uint64, done func()) {
	request := &inFlight{r.Path, abort}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.covers(r) {
		abort(errCancelled)
	}
	if c.requests[r.Tree] == nil {
		c.requests[r.Tree] = map[*inFlight]bool{}
	}
	c.requests[r.Tree][request] = true
	return c.newest[r.Partition()], func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.requests[r.Tree], request)
		if len(c.requests[r.Tree]) == 0 {
			delete(c.requests, r.Tree)
		}
	}
}

// followInterrupts aborts the requests of runs that people interrupt, until ctx
// ends. A missed interrupt costs the rest of a request. If another worker takes
// the interrupt's trigger, its idle entry fences the answer out. In this worker
// the trigger waits behind the request, and the answer is stored.
func (w *Worker) followInterrupts(ctx context.Context) error {
	space := w.conn.Space()
	for _, interrupts := range space.Interrupts() {
		err := w.conn.Watch(ctx, space.Live(interrupts), func(m bus.Stored) {
			if at, err := space.Parse(m.Subject); err == nil && at.Kind == subjects.Interrupt && !m.IsAnswer() {
				w.cancels.interrupt(at.Run)
			}
		})
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}
