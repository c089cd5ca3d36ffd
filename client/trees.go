package client

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TreeStatus is the status of a tree in a word.
type TreeStatus string

// The statuses of trees.
const (
	// TreeQueued: no worker has taken the submission yet.
	TreeQueued TreeStatus = "queued"
	// TreeRunning: a worker has a run of the tree in hand.
	TreeRunning TreeStatus = "running"
	// TreeWaiting: no worker has a run of the tree in hand.
	TreeWaiting TreeStatus = "waiting"
	// TreeHeld: a run of the tree waits for a person.
	TreeHeld      TreeStatus = "held"
	TreeCompleted TreeStatus = "completed"
	TreeFailed    TreeStatus = "failed"
)

// TreeStatuses are all statuses.
func TreeStatuses() []TreeStatus {
	return []TreeStatus{TreeQueued, TreeRunning, TreeWaiting, TreeHeld, TreeCompleted, TreeFailed}
}

// Ended reports whether a tree with the status has an outcome.
func (s TreeStatus) Ended() bool { return s == TreeCompleted || s == TreeFailed }

// TreeQuery chooses trees. The zero value is the newest trees at work.
type TreeQuery struct {
	// Agent is the agent of the root. The zero Agent is any.
	Agent subjects.Agent
	// Statuses are the statuses to list. Without any, a tree of every
	// status is listed that All permits.
	Statuses []TreeStatus
	// Since leaves out trees that began before it. Zero leaves out none.
	Since time.Time
	// All also lists trees that have ended. A status that has ended implies
	// it.
	All bool
	// N is the largest number of trees. 0 is DefaultTrees.
	N int
	// Before continues a list after a tree: it is the last one that was
	// listed. The zero Tree begins with the newest.
	Before subjects.Tree
}

// DefaultTrees is the default of TreeQuery.N.
const DefaultTrees = 20

// maxLooked bounds the trees that one list looks at for those of its query.
const maxLooked = 10_000

// TreeInfo is a tree of a list.
type TreeInfo struct {
	Root   subjects.Run
	Status TreeStatus
	// Began is the time of the root's call or, before that, of the
	// submission.
	Began time.Time
	// Ended is the time of the outcome, zero before.
	Ended time.Time
	// Runs is the number of runs with a model that were called, and Done
	// the number of those that have ended.
	Runs, Done int
	// Turns is the number of answers of models, and Usage their tokens.
	Turns int
	run.Totals
	// Task is the task of the root, empty for a submission that was
	// refused.
	Task string
	// Outcome is the outcome of a tree that has ended.
	Outcome run.Outcome
	// Snapshot is the tree, nil if it has ended.
	Snapshot *Snapshot
}

// ByModel returns the tokens of the tree by the model that used them.
func (t *TreeInfo) ByModel() map[string]provider.Usage {
	if t.Snapshot != nil {
		return UsageByModel(t.Snapshot.Runs())
	}
	return t.Totals.ByModel(t.Outcome.Model)
}

// TreePage is a part of a list of trees, the newest first.
type TreePage struct {
	Trees []TreeInfo
	// Last is the tree after which the list goes on (TreeQuery.Before). It
	// is zero at the end of the list.
	Last subjects.Tree

	fleet *fleet
}

// Workers returns the workers that were there when the list was read, each with
// the runs in its hand. The error says why they could not be asked. The list
// then has no reasons why runs wait.
func (p TreePage) Workers() ([]presence.Busy, error) {
	if p.fleet == nil {
		return nil, nil
	}
	return p.fleet.there, p.fleet.err
}

// Trees lists trees, the newest first. Its cost depends on the trees that it
// lists and looks at, not on the length of the stream. It looks at 10,000 trees
// at most: if few of the trees match a query, a page has less than N of them.
//
// Without All the list has the trees with a timer for their deadline. It leaves
// out a tree that is past its deadline and that no worker ends, unless it is
// among the newest. A tree has a timer after a second: younger ones are on the
// first pages alone.
func (c *Client) Trees(ctx context.Context, q TreeQuery) (TreePage, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return TreePage{}, err
	}
	l := &treeList{c: c, q: q, seen: map[subjects.Tree]bool{}}
	if l.q.N <= 0 {
		l.q.N = DefaultTrees
	}
	l.q.All = q.All || slices.ContainsFunc(q.Statuses, TreeStatus.Ended)
	if err := l.begin(ctx); err != nil {
		return TreePage{}, err
	}
	return l.page, l.read(ctx)
}

// treeList reads one page of a list.
type treeList struct {
	c *Client
	q TreeQuery
	// before is the time before which the list goes on, zero for its
	// beginning.
	before time.Time
	// timed says that the tree at that place has a timer. The list then
	// goes on with the trees that have one.
	timed bool
	fleet *fleet
	// seen has the trees that were found by a call or a timer.
	seen   map[subjects.Tree]bool
	looked int
	page   TreePage
}

// begin finds the place at which the list goes on, asks the workers, and lists
// the submissions that no worker has taken.
func (l *treeList) begin(ctx context.Context) (err error) {
	l.fleet = askFleet(ctx, l.c, subjects.Tree{})
	l.page.fleet = l.fleet
	if !l.q.Before.IsZero() {
		l.before, l.timed, err = listedAt(ctx, l.c, l.q.Before, l.q.All)
		return err
	}
	return l.queued(ctx)
}

// listedAt returns the time by which a list orders a tree. Timed says that it
// is the time of the tree's timer.
func listedAt(ctx context.Context, c *Client, tree subjects.Tree, all bool) (at time.Time, timed bool, _ error) {
	f, err := c.find(ctx, tree)
	if err != nil {
		return time.Time{}, false, err
	}
	subject := []string{f.root.Call(), f.root.Space.Result(f.root.Agent, tree)}
	if !all {
		subject = slices.Insert(subject, 0, f.root.Timer(0))
	}
	for _, s := range subject {
		m, ok, err := bus.FirstMessage(ctx, c.conn, s)
		if err != nil || ok {
			return m.Time, s == f.root.Timer(0), err
		}
	}
	return time.Time{}, false, nil // it is queued: the list goes on with the first root
}

// queued lists the submissions without a root.
func (l *treeList) queued(ctx context.Context) error {
	if !l.wants(TreeQueued) {
		return nil
	}
	ms, _, err := bus.QueuedSubmissions(ctx, l.c.conn, l.q.N)
	if errors.Is(err, bus.ErrNoStream) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.take(ctx, l.submitted(ms))
}

// submitted yields the roots that submissions ask for.
func (l *treeList) submitted(ms []bus.Stored) []candidate {
	var all []candidate
	for _, m := range ms {
		at, err := l.c.conn.Space().Parse(m.Subject)
		if err == nil && (l.q.Agent.IsZero() || at.Run.Agent == l.q.Agent) {
			all = append(all, candidate{at.Run, m, subjects.Submission})
		}
	}
	return all
}

// wants reports whether the query asks for a status.
func (l *treeList) wants(s TreeStatus) bool {
	if len(l.q.Statuses) > 0 {
		return slices.Contains(l.q.Statuses, s)
	}
	return l.q.All || !s.Ended()
}

// candidate is a root that may be listed.
type candidate struct {
	root subjects.Run
	// message is the one that the root was found by. Its time orders the
	// list.
	message bus.Stored
	// by is the kind of the message: Submission, Timer, Call or Result.
	by subjects.Kind
}

func (c candidate) time() time.Time { return c.message.Time }

// read reads candidates until the page is full.
func (l *treeList) read(ctx context.Context) error {
	if l.full() || len(l.q.Statuses) == 1 && l.q.Statuses[0] == TreeQueued {
		return nil
	}
	var batch []candidate
	for cand, err := range l.candidates(ctx) {
		if err != nil {
			return err
		}
		if cand.time().Before(l.q.Since) {
			break
		}
		// The outcome of a root that was called is passed over later.
		if cand.by != subjects.Result {
			if l.seen[cand.root.Tree] {
				continue
			}
			l.seen[cand.root.Tree] = true
		}
		if batch = append(batch, cand); len(batch) < l.batch() {
			continue
		}
		if err := l.take(ctx, batch); err != nil || l.full() {
			return err
		}
		if l.looked >= maxLooked {
			l.page.Last = cand.root.Tree
			return nil
		}
		batch = nil
	}
	return l.take(ctx, batch)
}

// batch is the number of candidates that are looked at together: with few
// matches among them more than the page has room for.
func (l *treeList) batch() int {
	room := l.q.N - len(l.page.Trees)
	if len(l.q.Statuses) > 0 && l.looked > 0 {
		room = max(room, 256)
	}
	return room
}

func (l *treeList) full() bool { return len(l.page.Trees) >= l.q.N }

// newestRoots is the number of the newest roots that a list of trees at work
// looks at beside those with a timer.
const newestRoots = 64

// candidates yields roots, the newest first.
func (l *treeList) candidates(ctx context.Context) iter.Seq2[candidate, error] {
	space, conn := l.c.conn.Space(), l.c.conn
	calls := l.found(bus.Newest(ctx, conn, space.RootCalls(l.q.Agent), l.before), subjects.Call)
	if l.q.All {
		// A submission that was refused has an outcome and no call.
		return merged(calls, l.found(bus.Newest(ctx, conn, space.ResultsBy(l.q.Agent), l.before), subjects.Result))
	}
	timed := l.found(bus.NewestOf(ctx, conn, space.RootTimers(l.q.Agent), l.before), subjects.Timer)
	if l.timed {
		return timed
	}
	return merged(timed, first(calls, newestRoots))
}

// found yields the roots of messages. It leaves out answers of the server under
// the subjects of calls and results, since a list has each tree once.
func (l *treeList) found(ms iter.Seq2[bus.Stored, error], by subjects.Kind) iter.Seq2[candidate, error] {
	space := l.c.conn.Space()
	return func(yield func(candidate, error) bool) {
		for m, err := range ms {
			if err != nil {
				yield(candidate{}, err)
				return
			}
			var root subjects.Run
			if by == subjects.Timer {
				root, _, err = space.ParseTimer(m.Subject)
			} else {
				var at subjects.Address
				at, err = space.Parse(m.Subject)
				root = at.Run
				if m.IsAnswer() {
					continue
				}
			}
			if err == nil && !yield(candidate{root, m, by}, nil) {
				return
			}
		}
	}
}

// first yields the first n elements.
func first(seq iter.Seq2[candidate, error], n int) iter.Seq2[candidate, error] {
	return func(yield func(candidate, error) bool) {
		left := n
		for cand, err := range seq {
			if left--; !yield(cand, err) || left == 0 {
				return
			}
		}
	}
}

// merged yields the elements of two sequences, the newest first. It ends after
// an error.
func merged(a, b iter.Seq2[candidate, error]) iter.Seq2[candidate, error] {
	return func(yield func(candidate, error) bool) {
		nextA, stopA := iter.Pull2(a)
		defer stopA()
		nextB, stopB := iter.Pull2(b)
		defer stopB()
		candA, errA, okA := nextA()
		candB, errB, okB := nextB()
		for okA || okB {
			if okA && (!okB || errA != nil || errB == nil && !candA.time().Before(candB.time())) {
				if !yield(candA, errA) || errA != nil {
					return
				}
				candA, errA, okA = nextA()
				continue
			}
			if !yield(candB, errB) || errB != nil {
				return
			}
			candB, errB, okB = nextB()
		}
	}
}

// listReads is the number of trees that a list reads at a time.
const listReads = 8

// take adds the candidates that the query asks for to the page.
func (l *treeList) take(ctx context.Context, batch []candidate) error {
	infos := make([]TreeInfo, len(batch))
	all, reading := errgroup.WithContext(ctx)
	all.SetLimit(listReads)
	for i, cand := range batch {
		all.Go(func() (err error) {
			infos[i], err = l.info(reading, cand)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	l.looked += len(batch)
	for i, info := range infos {
		if info.Snapshot != nil {
			info.observe(ctx, l.fleet)
		}
		if info.Status == "" || !l.wants(info.Status) {
			continue
		}
		if l.full() {
			return nil
		}
		l.page.Trees = append(l.page.Trees, info)
		if l.full() {
			l.page.Last = batch[i].root.Tree
		}
	}
	return nil
}

// info reads a tree. The status is empty for a candidate that is no tree of the
// list.
func (l *treeList) info(ctx context.Context, cand candidate) (TreeInfo, error) {
	t := TreeInfo{Root: cand.root, Began: cand.message.Origin().Time.Add(l.c.toLocalClock())}
	if cand.by == subjects.Submission {
		return l.infoOfQueued(ctx, t, cand.message)
	}
	m, ended, err := l.c.readResult(ctx, cand.root)
	if err != nil {
		return t, err
	}
	if !ended {
		return l.infoAtWork(ctx, t)
	}
	if !l.q.All {
		return t, nil
	}
	if cand.by == subjects.Result {
		_, called, err := bus.FirstMessage(ctx, l.c.conn, cand.root.Call())
		if err != nil || called {
			return t, err // it is listed by its call
		}
	} else if err := l.taskOf(ctx, &t, cand); err != nil {
		return t, err
	}
	if t.Outcome, err = l.c.decodeOutcome(ctx, m); err != nil {
		return t, err
	}
	t.Status, t.Ended = TreeFailed, m.Origin().Time.Add(l.c.toLocalClock())
	if t.Outcome.Status == run.StatusCompleted {
		t.Status = TreeCompleted
	}
	t.Totals = t.Outcome.Subtree
	t.Runs, t.Done, t.Turns = t.Totals.Runs, t.Totals.Runs, t.ModelCalls
	return t, nil
}

// taskOf sets the task from the call of the root.
func (l *treeList) taskOf(ctx context.Context, t *TreeInfo, cand candidate) error {
	if cand.by != subjects.Call {
		_, call, _, err := l.c.readCall(ctx, t.Root)
		t.Task = call.Task
		return err
	}
	e, err := l.c.runs.Event(ctx, t.Root, cand.message)
	if call, ok := e.(run.Called); ok {
		t.Task = call.Task
	}
	return err
}

func (l *treeList) infoOfQueued(ctx context.Context, t TreeInfo, m bus.Stored) (TreeInfo, error) {
	f, err := l.c.lookupRoot(ctx, t.Root.Tree)
	if err != nil || !f.root.Agent.IsZero() {
		return t, err // a worker has taken it
	}
	body, err := l.c.runs.Load(ctx, m)
	if err != nil {
		return t, err
	}
	t.Status, t.Task = TreeQueued, string(body)
	t.Snapshot = &Snapshot{Root: t.Root, Queued: true, Since: t.Began}
	return t, nil
}

// infoAtWork reads a tree that has no outcome.
func (l *treeList) infoAtWork(ctx context.Context, t TreeInfo) (TreeInfo, error) {
	call, called, err := bus.FirstMessage(ctx, l.c.conn, t.Root.Call())
	if err != nil || !called {
		return t, err // its messages were removed
	}
	s, err := readSnapshot(ctx, l.c, found{t.Root, call.Seq})
	if err != nil {
		return t, err
	}
	if s.Ended() {
		return t, nil // just now
	}
	t.Status, t.Snapshot, t.Began = TreeRunning, s, s.Since
	t.Task = s.State(subjects.Root).Input.Task
	return t, nil
}

// observe completes a tree that has not ended with the answers of the workers.
func (t *TreeInfo) observe(ctx context.Context, fl *fleet) {
	t.Snapshot.observe(ctx, fl)
	if t.Status == TreeQueued {
		return
	}
	t.Status = t.Snapshot.status()
	t.Totals, t.Done = t.Snapshot.Totals()
	t.Runs, t.Turns = t.Totals.Runs, t.ModelCalls
}

// status is the status of a tree that has not ended.
func (s *Snapshot) status() TreeStatus {
	status, ready := TreeWaiting, 0
	for _, known := range s.fold.runs {
		switch known.state.Phase { //nolint:exhaustive // the others wait
		case run.Held:
			return TreeHeld
		case run.Ready:
			ready++
		}
	}
	if ready > s.Stalled() {
		status = TreeRunning
	}
	return status
}

// Totals sums the work of all runs, whether they have ended or not. Done is the
// number of runs with a model that have ended.
func (s *Snapshot) Totals() (sum run.Totals, done int) {
	tools, called := map[subjects.Path]bool{}, map[subjects.Path]bool{}
	for _, e := range s.Events {
		switch e.Kind { //nolint:exhaustive // no other event begins or ends a run
		case Called:
			if e.Input.Tool != nil {
				tools[e.Run.Path] = true
				continue
			}
			called[e.Run.Path] = true
			sum.Runs++
		case ChildEnded, TreeEnded:
			o := e.Outcome
			if o.Tool != "" || tools[e.Run.Path] {
				continue
			}
			if called[e.Run.Path] { // a submission that was refused is no run
				done++
			}
			sum.Usage = sum.Usage.Add(o.Usage)
			sum.ModelCalls += o.Turns
			sum.ToolCalls += o.ToolCalls
			sum.ModelMS += o.ModelMS
		}
	}
	for path, known := range s.fold.runs {
		if !tools[path] && !known.state.OutcomeStored {
			sum = sum.Add(known.state.Turns.Totals())
		}
	}
	return sum, done
}
