package top

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

const (
	// maxTrees bounds the trees of a look.
	maxTrees = 200
	// rateTime is the time over which rates are counted.
	rateTime = time.Minute
)

// look is the state of a bus at one moment. All views draw the same look.
type look struct {
	at    time.Time
	trees []listed
	// open is the tree that is shown, nil if none is shown, or if it was
	// not found.
	open *client.Snapshot
	// notOpen is the error of the read of the tree that is shown.
	notOpen error
	// more says that there are trees at work beside trees.
	more    bool
	workers []cli.WorkerLine
	agents  []agent
	// sum has the rates of all agents together.
	sum agent
	// partial says that more runs have ended in the last minute than were
	// counted.
	partial bool
}

// listed is a tree of the list.
type listed struct {
	client.TreeInfo
	// waits says why the tree is where it is.
	waits string
}

// agent is an agent with the work that waits for it, and the runs of it that
// have ended in the last minute.
type agent struct {
	name string
	// workers is the number of workers that serve it.
	workers int
	// queued is the number of submissions and runs of the trees of the look
	// that are ready and that no worker has in hand. Taken is the number of
	// runs that workers have in hand.
	queued, taken int
	client.AgentStatistics
}

// reader looks at a bus again and again.
type reader struct {
	ses    *cli.Session
	prices price.Table
	// counted has the outcomes of the last minute, as they were read.
	counted []client.Statistics
	// until is the server's time up to which outcomes were read.
	until time.Time
}

// read looks at the bus, and at the tree that is shown; the zero Tree if none
// is shown. A tree of the list is not read again.
func (r *reader) read(ctx context.Context, shown subjects.Tree) (l look, err error) {
	page, err := r.ses.Trees(ctx, client.TreeQuery{N: maxTrees})
	if err != nil {
		return l, err
	}
	workers, err := page.Workers()
	if err != nil {
		return l, err
	}
	if err := r.count(ctx); err != nil {
		return l, err
	}
	l = look{at: time.Now(), more: !page.Last.IsZero()}
	for _, t := range page.Trees {
		l.trees = append(l.trees, listed{t, cli.WaitsFor(t, l.at)})
	}
	for _, w := range workers {
		l.workers = append(l.workers, cli.WorkerLineOf(w))
	}
	if l.open = l.snapshot(shown); l.open == nil && !shown.IsZero() {
		l.open, l.notOpen = r.ses.Snapshot(ctx, shown)
	}
	r.sumUp(&l)
	return l, nil
}

// snapshot returns a tree of the look, nil if the look does not have it.
func (l *look) snapshot(tree subjects.Tree) *client.Snapshot {
	if l.open != nil && l.open.Root.Tree == tree {
		return l.open
	}
	for _, t := range l.trees {
		if t.Root.Tree == tree {
			return t.Snapshot
		}
	}
	return nil
}

// count reads the outcomes since the last count, and forgets those that are
// older than a minute.
func (r *reader) count(ctx context.Context) error {
	oldest := r.ses.Conn.Clocks.Now().Add(-rateTime)
	if r.until.Before(oldest) {
		r.until = oldest
	}
	news, err := client.ReadStatistics(ctx, r.ses.Client, r.until.Add(1))
	if err != nil {
		return err
	}
	r.until = news.Until
	r.counted = append(r.counted, news)
	r.counted = slices.DeleteFunc(r.counted, func(s client.Statistics) bool {
		return len(s.Agents) == 0 || s.Until.Before(oldest)
	})
	return nil
}

// sumUp fills the agents of a look.
func (r *reader) sumUp(l *look) {
	all := map[string]*agent{}
	of := func(name string) *agent {
		if all[name] == nil {
			all[name] = &agent{name: name}
		}
		return all[name]
	}
	l.sum.Models = map[string]provider.Usage{}
	for _, s := range r.counted {
		l.partial = l.partial || !s.All
		for _, a := range s.Agents {
			one := of(a.Agent)
			one.Runs, one.Failed, one.Usage = one.Runs+a.Runs, one.Failed+a.Failed, one.Usage.Add(a.Usage)
			l.sum.Runs, l.sum.Failed, l.sum.Usage = l.sum.Runs+a.Runs, l.sum.Failed+a.Failed, l.sum.Usage.Add(a.Usage)
			for model, used := range a.Models {
				l.sum.Models[model] = l.sum.Models[model].Add(used)
			}
		}
	}
	for _, w := range l.workers {
		for _, name := range w.Agents {
			of(name).workers++
		}
		for _, h := range w.Runs {
			of(h.Agent.String()).taken++
		}
	}
	for _, t := range l.trees {
		switch {
		case t.Status == client.TreeQueued:
			of(t.Root.Agent.String()).queued++
		case t.Snapshot != nil:
			for _, r := range t.Snapshot.Untaken() {
				of(r.Agent.String()).queued++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.agents = append(l.agents, *all[name])
	}
	// The busiest agents come first, so that a small window has them.
	slices.SortStableFunc(l.agents, func(a, b agent) int {
		return cmp.Or(cmp.Compare(b.queued, a.queued), cmp.Compare(b.taken, a.taken), cmp.Compare(b.Runs, a.Runs))
	})
}

// cost is the cost of a minute.
func (r *reader) cost(l look) price.Cost { return r.prices.Cost(l.sum.Models) }
