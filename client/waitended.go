package client

import (
	"context"
	"errors"
	"time"

	"github.com/axebus/axe/subjects"
)

// WaitEnded waits until a run and all runs called below it have ended, and
// calls fn for every event of the tree as Follow does. A cancelled run answers
// at once, so runs below it may end after it.
//
// WaitEnded does not wait for a run without an outcome that is past its
// deadline: no worker serves its agent. It returns the number of such runs.
func (c *Client) WaitEnded(
	ctx context.Context, tree subjects.Tree, top subjects.Path, fn func(Event),
) (abandoned int, err error) {
	o := openRuns{calls: map[subjects.Path]due{}, closed: map[subjects.Path]bool{}}
	err = c.follow(ctx, tree, func(e Event) {
		o.apply(e)
		fn(e)
	}, func(t *tail) (bool, error) { return o.ended(ctx, t, top) })
	abandoned = o.open(top)
	if err != nil && (abandoned == 0 || !errors.Is(err, ErrOverdue)) {
		return 0, err
	}
	// After ErrOverdue too: no run has a later deadline than the root.
	return abandoned, nil
}

// openRuns holds the runs of a tree that were called and have no outcome.
type openRuns struct {
	// calls has the deadline of each open run.
	calls map[subjects.Path]due
	// closed has the runs with an outcome. A later call does not open such
	// a run again.
	closed map[subjects.Path]bool
}

func (o openRuns) apply(e Event) {
	p := e.Run.Path
	switch e.Kind { //nolint:exhaustive // no other event begins or ends a run
	case Called:
		if !o.closed[p] {
			o.calls[p] = e.due
		}
	case ChildEnded, TreeEnded:
		o.closed[p] = true
		delete(o.calls, p)
	}
}

// deadlineGrace is the time after its deadline in which a run may still end.
const deadlineGrace = 15 * time.Second

// ended reports whether a run and all runs called below it have ended or are
// past their deadline.
func (o openRuns) ended(ctx context.Context, t *tail, top subjects.Path) (bool, error) {
	_, called := o.calls[top]
	if o.open(top) == 0 || !called && !o.closed[top] {
		return o.closed[top], nil
	}
	clock := t.c.conn.Clocks.Of(t.root)
	return passed(ctx, t.c, clock, func() (last time.Time) {
		for p, call := range o.calls {
			if end := call.end(clock); top.Covers(p) && end.After(last) {
				last = end
			}
		}
		return last
	})
}

// open returns the number of runs at or below top that have no outcome.
func (o openRuns) open(top subjects.Path) (n int) {
	for p := range o.calls {
		if top.Covers(p) {
			n++
		}
	}
	return n
}
