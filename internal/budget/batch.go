package budget

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/axebus/axe/bus"
)

// batcher merges the changes that runs of this worker make to one tally at the
// same time into one message. A hundred runs that each count two turns at once
// take 1 ms with it, and some 500 ms with a compare-and-set for each change,
// since nearly all of these are refused and made again (BenchmarkFanOut, 2
// cores).
type batcher struct {
	conn *bus.Conn

	mu sync.Mutex
	// queues are the tallies that are being changed, by subject.
	queues map[string]*queue
}

// queue is the changes of one tally that are not stored yet.
type queue struct {
	// users is the number of updates under way. batcher.mu guards it.
	users int
	// storing is full while one of the updates stores the changes of all.
	storing chan struct{}

	mu      sync.Mutex
	changes []*change
}

// change is one run's change of a tally.
type change struct {
	// apply may be called several times, until a result is stored. It
	// returns false if there is nothing to store.
	apply func(Tally) (_ Tally, stores bool)
	done  chan error
}

// errAborted reports that the update that stored a batch was cancelled. The
// other changes of the batch are still to be stored.
var errAborted = errors.New("batch aborted")

// update changes the tally at a subject. It tries until ctx ends.
func (b *batcher) update(ctx context.Context, subject string, apply func(Tally) (Tally, bool)) error {
	q := b.join(subject)
	defer b.leave(subject, q)
	for {
		err := b.enqueue(ctx, subject, q, apply)
		if !errors.Is(err, errAborted) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// enqueue adds a change to a queue, and returns when it is stored. An update
// that finds no other one storing stores all changes that are queued by then.
func (b *batcher) enqueue(ctx context.Context, subject string, q *queue, apply func(Tally) (Tally, bool)) error {
	c := &change{apply, make(chan error, 1)}
	q.add(c)
	select {
	case err := <-c.done:
		return err
	case q.storing <- struct{}{}:
		b.storeAll(ctx, subject, q.takeAll())
		<-q.storing
	case <-ctx.Done():
		if q.remove(c) {
			return context.Cause(ctx)
		}
	}
	// This update, or another one, has taken the change and reports on it.
	return <-c.done
}

// storeAll stores changes as one message.
func (b *batcher) storeAll(ctx context.Context, subject string, changes []*change) {
	if len(changes) == 0 {
		return
	}
	var failed error
	err := b.conn.Update(ctx, subject, func(last []byte) []byte {
		t, stores := Decode(last).Next(), false
		for _, c := range changes {
			if next, ok := c.apply(t); ok {
				t, stores = next, true
			}
		}
		if !stores {
			return nil
		}
		body, err := json.Marshal(t)
		failed = err
		return body
	})
	if err == nil {
		err = failed
	}
	if err != nil && ctx.Err() != nil {
		err = errAborted
	}
	for _, c := range changes {
		c.done <- err
	}
}

// join finds or makes the queue of a subject. The caller calls leave.
func (b *batcher) join(subject string) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[subject]
	if q == nil {
		q = &queue{storing: make(chan struct{}, 1)}
		b.queues[subject] = q
	}
	q.users++
	return q
}

// leave drops the queue of a subject after its last update.
func (b *batcher) leave(subject string, q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(b.queues, subject)
	}
}

func (q *queue) add(c *change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes = append(q.changes, c)
}

func (q *queue) takeAll() []*change {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.changes
	q.changes = nil
	return all
}

// remove takes a change back. It returns false if an update has taken it.
func (q *queue) remove(c *change) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.changes, c)
	if i >= 0 {
		q.changes = slices.Delete(q.changes, i, i+1)
	}
	return i >= 0
}
