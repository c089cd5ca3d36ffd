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
	o := openRuns{deadlines: map[subjects.Path]time.Time{}, closed: map[subjects.Path]bool{}}
	err = c.follow(ctx, tree, func(e Event) {
		o.apply(e)
		fn(e)
	}, func(*tail) bool {
		var ended bool
		abandoned, ended = o.ended(top, time.Now())
		return ended
	})
	if n := o.open(top); n > 0 && errors.Is(err, ErrOverdue) {
		// No run has a later deadline than the root.
		return n, nil
	}
	return abandoned, err
}

// openRuns holds the runs of a tree that were called and have no outcome.
type openRuns struct {
	// deadlines has the deadline of each open run.
	deadlines map[subjects.Path]time.Time
	// closed has the runs with an outcome. A later call does not open such
	// a run again.
	closed map[subjects.Path]bool
}

func (o openRuns) apply(e Event) {
	p := e.Run.Path
	switch e.Kind { //nolint:exhaustive // no other event begins or ends a run
	case Called:
		if !o.closed[p] {
			o.deadlines[p] = e.Deadline
		}
	case ChildEnded, TreeEnded:
		o.closed[p] = true
		delete(o.deadlines, p)
	}
}

// deadlineGrace is the time after its deadline in which a run may still end.
const deadlineGrace = 15 * time.Second

// ended reports whether a run and all runs called below it have ended or are
// past their deadline. It returns the number of the latter.
func (o openRuns) ended(top subjects.Path, now time.Time) (abandoned int, ok bool) {
	for p, deadline := range o.deadlines {
		if top.Covers(p) && now.Before(deadline.Add(deadlineGrace)) {
			return 0, false
		}
	}
	_, called := o.deadlines[top]
	return o.open(top), called || o.closed[top]
}

// open returns the number of runs at or below top that have no outcome.
func (o openRuns) open(top subjects.Path) (n int) {
	for p := range o.deadlines {
		if top.Covers(p) {
			n++
		}
	}
	return n
}
