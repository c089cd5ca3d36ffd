package agentd

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// errTombstone aborts a request to a model.
var errTombstone = errors.New("cancelled by a tombstone")

// tombstones knows every cancelled path, and the requests in flight that a new
// one aborts.
type tombstones struct {
	mu     sync.Mutex
	paths  map[subjects.Tree]map[subjects.Path]time.Time
	asking map[subjects.Tree]map[*ask]bool
	pruned time.Time
	// closed when all that were stored when the worker began are known
	all chan struct{}
	// stream sequence, by partition: every stored tombstone up to it is
	// known
	newest map[int]uint64
}

// ask is a request to a model in flight.
type ask struct {
	path  subjects.Path
	abort context.CancelCauseFunc
}

func newTombstones() *tombstones {
	return &tombstones{
		all:    make(chan struct{}),
		newest: map[int]uint64{},
		paths:  map[subjects.Tree]map[subjects.Path]time.Time{},
		asking: map[subjects.Tree]map[*ask]bool{},
	}
}

// follow learns the tombstones until ctx ends.
func (t *tombstones) follow(ctx context.Context, conn *bus.Conn) error {
	return conn.Follow(ctx, conn.Space().Cancels(), func(m bus.Stored) {
		if at, err := conn.Space().Parse(m.Subject); err == nil {
			t.add(at.Run.Tree, at.Run.Path, m.Time)
			t.upTo(at.Run.Partition(), m.Seq)
			t.prune(m.Time, conn.MaxAge())
		}
	}, func() { close(t.all) })
}

// learned waits until all tombstones over a run are known. That takes the
// server a tenth of a second for a million runs; a root is not kept waiting,
// for there is only its own, and who reads the run reads that.
func (t *tombstones) learned(ctx context.Context, r subjects.Run) error {
	if r.Path.IsRoot() {
		return nil
	}
	select {
	case <-t.all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// complete reports whether all that were stored when the worker began are
// known.
func (t *tombstones) complete() bool {
	select {
	case <-t.all:
		return true
	default:
		return false
	}
}

func (t *tombstones) add(tree subjects.Tree, path subjects.Path, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paths[tree] == nil {
		t.paths[tree] = map[subjects.Path]time.Time{}
	}
	t.paths[tree][path] = at
	for a := range t.asking[tree] {
		if path.Covers(a.path) {
			a.abort(errTombstone)
		}
	}
}

// errInterrupted aborts a request to a model.
var errInterrupted = errors.New("stopped by the user")

// interrupt aborts the requests of a run.
func (t *tombstones) interrupt(r subjects.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a := range t.asking[r.Tree] {
		if a.path == r.Path {
			a.abort(errInterrupted)
		}
	}
}

// upTo notes that every tombstone up to a sequence is known. What a worker
// wrote itself does not count: others stored before it may still be on their
// way here.
func (t *tombstones) upTo(partition int, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest[partition] = max(t.newest[partition], seq)
}

// known is the newest tombstone up to which all are known that are on the
// stream of a run.
func (t *tombstones) known(r subjects.Run) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest[r.Partition()]
}

// prune forgets, once an hour, what the stream has forgotten.
func (t *tombstones) prune(now time.Time, keep time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if keep == 0 || now.Sub(t.pruned) < time.Hour {
		return
	}
	t.pruned = now
	for tree, paths := range t.paths {
		maps.DeleteFunc(paths, func(_ subjects.Path, at time.Time) bool { return now.Sub(at) > keep })
		if len(paths) == 0 {
			delete(t.paths, tree)
		}
	}
}

// covered reports whether a run, or one above it, is cancelled.
func (t *tombstones) covered(r subjects.Run) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over(r)
}

func (t *tombstones) over(r subjects.Run) bool {
	for p := range t.paths[r.Tree] {
		if p.Covers(r.Path) {
			return true
		}
	}
	return false
}

// watch has a tombstone over the run abort a request, at once if it is known
// already; known is the newest of which that holds. The caller calls done.
func (t *tombstones) watch(r subjects.Run, abort context.CancelCauseFunc) (known uint64, done func()) {
	a := &ask{r.Path, abort}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over(r) {
		abort(errTombstone)
	}
	if t.asking[r.Tree] == nil {
		t.asking[r.Tree] = map[*ask]bool{}
	}
	t.asking[r.Tree][a] = true
	return t.newest[r.Partition()], func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.asking[r.Tree], a)
		if len(t.asking[r.Tree]) == 0 {
			delete(t.asking, r.Tree)
		}
	}
}
