package budget

import (
	"cmp"
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
	// queues are the tallies that are being changed, by subject. The mutex
	// guards the fields of each queue too.
	queues map[string]*queue
}

// queue is the changes of one tally that are not stored yet.
type queue struct {
	// users is the number of updates under way.
	users   int
	changes []*change
	// storing is full while one of the updates stores the changes of all.
	storing chan struct{}
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
	for {
		err := b.enqueue(ctx, subject, apply)
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
func (b *batcher) enqueue(ctx context.Context, subject string, apply func(Tally) (Tally, bool)) error {
	c := &change{apply, make(chan error, 1)}
	q := b.join(subject, c)
	defer b.leave(subject, q)
	select {
	case err := <-c.done:
		return err
	case q.storing <- struct{}{}:
		b.storeAll(ctx, subject, b.takeAll(q))
		<-q.storing
	case <-ctx.Done():
		if b.remove(q, c) {
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
	err = cmp.Or(err, failed)
	if err != nil && ctx.Err() != nil {
		err = errAborted
	}
	for _, c := range changes {
		c.done <- err
	}
}

// join adds a change to the queue of its subject, and makes the queue if there
// is none. The caller calls leave.
func (b *batcher) join(subject string, c *change) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[subject]
	if q == nil {
		q = &queue{storing: make(chan struct{}, 1)}
		b.queues[subject] = q
	}
	q.users++
	q.changes = append(q.changes, c)
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

func (b *batcher) takeAll(q *queue) []*change {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := q.changes
	q.changes = nil
	return all
}

// remove takes a change back. It returns false if an update has taken it.
func (b *batcher) remove(q *queue, c *change) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(q.changes, c)
	if i >= 0 {
		q.changes = slices.Delete(q.changes, i, i+1)
	}
	return i >= 0
}
