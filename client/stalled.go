package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

const (
	// firstStallCheck is the time after which a follower looks for the first
	// time whether the runs of a tree have workers.
	firstStallCheck = 500 * time.Millisecond
	// stallCheckInterval is the time between two looks.
	stallCheckInterval = 2 * time.Second
	// stallConfirmDelay is the time after which a follower looks again if a
	// run seems to have no worker. A worker may be coming back to a server
	// that was away.
	stallConfirmDelay = 300 * time.Millisecond
)

// stalls finds the runs of a tree that need a worker and have none.
type stalls struct {
	registry presence.Registry
	// next is the time of the next look.
	next time.Time
	// asking names the worker that has reported last that it asks the model
	// of a run.
	asking map[subjects.Path]string
	// suspects has the runs that the last look has found, with the reasons.
	suspects map[subjects.Path]string
	// reported has the runs of which fn was told.
	reported map[subjects.Path]bool
}

func newStalls(r presence.Registry) stalls {
	return stalls{
		registry: r, next: time.Now().Add(firstStallCheck), asking: map[subjects.Path]string{},
		reported: map[subjects.Path]bool{},
	}
}

// Stalls returns a Stalled event for each run of a tree that needs a worker and
// has none. It does not find a run whose worker died during a request to the
// model if other workers serve the agent.
func (c *Client) Stalls(ctx context.Context, tree subjects.Tree) (events []Event, err error) {
	f, err := c.find(ctx, tree)
	if err != nil {
		return nil, err
	}
	t := &tail{c: c, root: f.root, fn: func(Event) {}, stalls: newStalls(presence.New(c.conn))}
	if err := t.read(ctx); err != nil {
		return nil, err
	}
	t.fn = func(e Event) { events = append(events, e) }
	for range 2 {
		if t.checkStalls(ctx); len(t.stalls.suspects) == 0 {
			return nil, nil
		}
		if err := pause.For(ctx, stallConfirmDelay); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// troubleTimeout bounds the time for which Trouble waits for answers.
const troubleTimeout = 500 * time.Millisecond

// ErrNoProgress is wrapped by the error of Trouble: a worker cannot go on,
// because a stream keeps it from its work.
var ErrNoProgress = errors.New("no worker can go on")

// Trouble asks the workers whether they can go on. The error is ErrNoProgress
// if one of them says that it cannot, with the reason. It is nil if none says
// so within half a second: there may be no worker.
func (c *Client) Trouble(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, troubleTimeout)
	defer cancel()
	survey, err := presence.New(c.conn).Survey(ctx)
	if err != nil {
		return nil // the server is away, or no worker has ever been there
	}
	survey.Serving(ctx, "")
	if trouble := survey.Trouble(); trouble != "" {
		return fmt.Errorf("%w: %s", ErrNoProgress, trouble)
	}
	return nil
}

// checkStalls looks once which runs need a worker and have none. It passes an
// event to fn at each look for each one that two looks have found, and once for
// each one that has a worker again.
func (t *tail) checkStalls(ctx context.Context) {
	s := &t.stalls
	s.next = time.Now().Add(stallCheckInterval)
	found := t.findStalls(ctx)
	for path, reason := range found {
		if s.suspects[path] == "" {
			s.next = time.Now().Add(stallConfirmDelay)
			continue
		}
		t.fn(t.stallEvent(path, reason, s.reported[path]))
		s.reported[path] = true
	}
	for path := range s.reported {
		if found[path] == "" {
			delete(s.reported, path)
			t.fn(t.stallEvent(path, "", false))
		}
	}
	s.suspects = found
}

// findStalls returns the runs that need a worker and have none, each with the
// reason.
func (t *tail) findStalls(ctx context.Context) map[subjects.Path]string {
	waiting := t.fold.needWorker()
	if !t.called && !t.ended {
		waiting = []subjects.Run{t.root}
	}
	if len(waiting) == 0 {
		return nil
	}
	survey, err := t.stalls.registry.Survey(ctx)
	if err != nil {
		return nil // the server is away, or no worker has ever been there
	}
	found := map[subjects.Path]string{}
	for _, r := range waiting {
		agent := r.Agent.String()
		if !t.called {
			agent = "" // any worker takes a submission
		}
		worker := t.stalls.asking[r.Path]
		if s := survey.Serving(ctx, agent); s.Unserved() {
			found[r.Path] = s.Text(t.c.conn.Clocks.Now())
		} else if worker != "" && survey.Gone(ctx, worker) {
			found[r.Path] = "its worker " + worker + " is gone, another one takes over soon"
		} else if trouble := survey.Trouble(); trouble != "" {
			found[r.Path] = ErrNoProgress.Error() + ": " + trouble
		} else if err := t.c.conn.Health.Room(ctx); !t.called && errors.Is(err, bus.ErrNoRoom) {
			found[r.Path] = err.Error()
		}
	}
	return found
}

func (t *tail) stallEvent(path subjects.Path, reason string, again bool) Event {
	r := t.root
	if known := t.fold.runs[path].run; !known.Agent.IsZero() {
		r = known
	}
	return Event{
		Kind: Stalled, Run: r, Time: time.Now(), State: t.fold.State(path), Reason: reason, Again: again,
	}
}

// needWorker returns the runs that a worker has to go on with.
func (f *Fold) needWorker() []subjects.Run {
	var all []subjects.Run
	for _, known := range f.runs {
		if known.state.Phase == run.Ready && !known.state.OutcomeStored && !known.run.Agent.IsZero() {
			all = append(all, known.run)
		}
	}
	slices.SortFunc(all, func(a, b subjects.Run) int { return cmp.Compare(a.Path.String(), b.Path.String()) })
	return all
}
