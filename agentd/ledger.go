package agentd

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/subjects"
)

// ledgers are the tallies that runs of this worker change at this moment, by
// subject.
type ledgers struct {
	mu   sync.Mutex
	open map[string]*ledger
}

// ledger is a tally that many runs of this worker change at once. One of them
// stores what all of them have to say, so that it costs what one change costs,
// and this worker is but one of those that meet there.
type ledger struct {
	users int           // guarded by ledgers.mu
	turn  chan struct{} // held by who stores

	mu    sync.Mutex
	queue []*change
}

// change is what one run has to say. It may be made of one tally after the
// other until one is stored.
type change struct {
	// ok is false where there is nothing to store
	apply func(budget.Tally) (_ budget.Tally, ok bool)
	done  chan error
}

func newLedgers() *ledgers { return &ledgers{open: map[string]*ledger{}} }

// take finds the ledger of a subject. The caller calls done.
func (l *ledgers) take(subject string) (_ *ledger, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.open[subject]
	if one == nil {
		one = &ledger{turn: make(chan struct{}, 1)}
		l.open[subject] = one
	}
	one.users++
	return one, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.open, subject)
		}
	}
}

// amend changes the tally of a scope that a run is in, together with whoever
// else of this worker wants to.
func (w *Worker) amend(
	ctx context.Context,
	r subjects.Run,
	s subjects.Scope,
	apply func(budget.Tally) (budget.Tally, bool),
) error {
	subject := tally(r, s)
	l, done := w.ledgers.take(subject)
	defer done()
	c := &change{apply, make(chan error, 1)}
	l.put(c)
	for {
		ended := ctx.Done()
		if ctx.Err() != nil {
			if l.drop(c) {
				return context.Cause(ctx)
			}
			// somebody stores it: what comes of that, or that it
			// was put back, is waited for
			ended = nil
		}
		select {
		case err := <-c.done:
			return err
		case l.turn <- struct{}{}:
			if ctx.Err() == nil {
				cs := l.all()
				err := w.store(ctx, subject, cs)
				l.settle(cs, err, c, ctx.Err() != nil)
			}
			<-l.turn
		case <-ended:
		}
	}
}

// store makes all changes in one.
func (w *Worker) store(ctx context.Context, subject string, cs []*change) error {
	if len(cs) == 0 {
		return nil
	}
	var failed error
	err := w.conn.Update(ctx, subject, func(last []byte) []byte {
		t, stores := budget.Decode(last).Next(), false
		for _, c := range cs {
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
	return err
}

func (l *ledger) put(c *change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, c)
}

// all takes what waits. It is whose turn it is that calls it.
func (l *ledger) all() []*change {
	l.mu.Lock()
	defer l.mu.Unlock()
	cs := l.queue
	l.queue = nil
	return cs
}

// drop takes a change back, unless somebody stores it at this moment or has
// stored it.
func (l *ledger) drop(c *change) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return leave(&l.queue, c)
}

// settle tells what came of changes. If who stored them was called off, the
// others are the next one's to store.
func (l *ledger) settle(cs []*change, err error, mine *change, calledOff bool) {
	for _, c := range cs {
		if err != nil && calledOff && c != mine {
			l.put(c)
			continue
		}
		c.done <- err
	}
}
