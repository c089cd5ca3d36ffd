package presence

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
)

const (
	// refreshInterval is the time after which a worker stores its entry
	// again.
	refreshInterval = 10 * time.Second
	// listInterval is the time between two reads of all entries.
	listInterval = time.Second
	// DefaultWatchInterval is the default of Keeper.WatchInterval.
	DefaultWatchInterval = 250 * time.Millisecond
	// writeTimeout bounds a write of an entry.
	writeTimeout = 2 * time.Second
)

// Keeper keeps the entry of one worker. It also watches over one neighbour: the
// worker that follows by name. If the neighbour's process is gone, it looks at
// those that follow, many at once. It marks the entries of all that are gone, and gives back
// the messages that they had in hand. So a bus with at least two workers goes
// on half a second after a death, for one read and four requests a second for
// each worker.
//
// A keeper that notes the end of a worker removes the entries of those that
// ended before the last maxEnded.
type Keeper struct {
	Registry Registry
	// Entry returns the worker's entry as it is now.
	Entry func() Entry
	// Recall returns the answer of a model that another worker asks for;
	// nil if the worker does not know it.
	Recall func(key string) []byte
	// Work returns the work in hand: of one tree or, for the
	// empty id, of all.
	Work func(tree string) Work
	// Changed is ready when the entry has changed.
	Changed <-chan struct{}
	// Entered is called once, when the entry is stored or the first attempt
	// has failed. Before it other workers do not know of this one, and
	// would not ask what it has in hand.
	Entered func()
	// Found is called with a worker whose process this keeper has found
	// gone, and with the agents that no worker serves any more.
	Found func(gone Worker, unserved []string)

	// GivenBack is called after messages of a process that is gone were
	// given back.
	GivenBack func(of string, messages int)
	// Mistaken is called if another worker has found this one gone, which
	// it is not.
	Mistaken func(by string)
	// Namesake is called, once, if another live worker has the same name.
	Namesake func(Worker)
	// WatchInterval is the time between two looks at the neighbour; 0:
	// DefaultWatchInterval.
	WatchInterval time.Duration

	// predecessor is Entry.Predecessor of the worker.
	predecessor time.Time
	namesake    bool
	// refreshed is the time of the last write of the entry.
	refreshed time.Time
	// held is the list that this worker has stored last.
	held held
	// mayNotForget says that the worker's user may not remove entries.
	mayNotForget bool
}

// Run keeps the entry until ctx ends, and then notes the worker's end. A bus
// that fails meanwhile does not end it.
func (k *Keeper) Run(ctx context.Context) error {
	// Without a list the worker has no entry, or the next list has it.
	all, _ := k.Registry.Workers(ctx)
	listed := time.Now()
	k.giveBackPredecessor(ctx, all)
	answers := bus.Answers{Recall: k.Recall, Work: func(tree string) []byte { return encodeWork(k.Work(tree)) }}
	if err := k.Registry.workers.Answer(ctx, Worker{Entry: k.Entry()}.token(), answers); err != nil {
		return err
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { k.keepHeld(ctx) })
	k.refresh(ctx, all)
	k.Entered()
	for ctx.Err() == nil {
		if time.Since(listed) >= listInterval {
			all, _ = k.Registry.Workers(ctx)
			listed = time.Now()
			k.refresh(ctx, all)
		}
		if k.checkNeighbours(ctx, all) || k.await(ctx, all) {
			listed = time.Time{}
		}
	}
	keeping.Wait()
	k.sayFarewell(context.WithoutCancel(ctx))
	return context.Cause(ctx)
}

// await waits until the next look is due, and reports whether the entry has
// changed meanwhile. A worker without a neighbour only reads the list.
func (k *Keeper) await(ctx context.Context, all []Worker) (changed bool) {
	interval := cmp.Or(k.WatchInterval, DefaultWatchInterval)
	if len(neighbours(all, k.Entry().Name)) == 0 {
		interval = max(interval, listInterval)
	}
	next := time.NewTimer(interval)
	defer next.Stop()
	select {
	case <-next.C:
		return false
	case <-k.Changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh stores the entry if the bucket has another one, or an old one.
func (k *Keeper) refresh(ctx context.Context, all []Worker) {
	entry := k.Entry()
	own := named(all, entry.Name)
	if own.Since.Equal(entry.Since) && own.FoundBy != "" {
		k.Registry.workers.LetGo(k.held.letGo())
		k.Mistaken(own.FoundBy)
	}
	switch {
	case own.Since.After(entry.Since):
		if !k.namesake {
			k.namesake = true
			k.Namesake(own)
		}
		return
	case own.Since.Before(entry.Since) && own.Ended.IsZero():
		k.predecessor = own.Seen
	}
	entry.Predecessor = k.predecessor
	entry.AgentsIn = listOf(entry.Agents)
	if equal(own.Entry, entry) && time.Since(k.refreshed) < refreshInterval {
		return
	}
	if _, err := k.put(ctx, own.rev, entry); err == nil {
		k.refreshed = time.Now()
	}
}

// sayFarewell notes that the worker has ended.
func (k *Keeper) sayFarewell(ctx context.Context) {
	all, err := k.Registry.Workers(ctx)
	if err != nil {
		return
	}
	entry := k.Entry()
	own := named(all, entry.Name)
	entry.Ended = k.Registry.clocks.Now().UTC()
	if _, err := k.put(ctx, own.rev, entry); err == nil {
		k.forgetOld(ctx, all, 1)
	}
}

// maxLooks bounds the number of workers that are asked at once.
const maxLooks = 64

// checkNeighbours asks the next neighbour for a sign of life, and those with
// overdue entries. If the process of the neighbour is gone, it asks those that
// follow, maxLooks at once, until one is there. It marks the entries of those
// that are gone, and gives back what they had in hand. Of several workers that
// find one gone, the one that marks the entry gives back. checkNeighbours
// returns true if some are gone: the list has to be read again.
func (k *Keeper) checkNeighbours(ctx context.Context, all []Worker) (found bool) {
	rest := neighbours(all, k.Entry().Name)
	if len(rest) == 0 {
		return false
	}
	asked := suspects(rest, all, k.Registry.clocks.Now())
	for next := 1; len(asked) > 0; {
		gone := k.gone(ctx, asked, all)
		if len(gone) > 0 {
			found = true
			marked := k.mark(ctx, gone, all)
			k.forgetOld(ctx, all, len(marked))
			k.giveBack(ctx, marked)
			k.tell(ctx, marked, all)
		}
		last := rest[next-1].Name
		if !slices.ContainsFunc(gone, func(w Worker) bool { return w.Name == last }) {
			break
		}
		asked = rest[next:min(next+maxLooks, len(rest))]
		next += len(asked)
	}
	return found
}

// suspects returns the first of the neighbours, and others with an overdue
// entry: maxLooks in all.
func suspects(neighbours, all []Worker, now time.Time) []Worker {
	asked := []Worker{neighbours[0]}
	for _, w := range neighbours[1:] {
		if len(asked) < maxLooks && overdue(w, all, now) {
			asked = append(asked, w)
		}
	}
	return asked
}

// gone asks workers for a sign of life, all at once. It returns those that have
// no process, with the time at which it was missed. Soon after this worker was
// cut off itself it returns only those that are overdue.
func (k *Keeper) gone(ctx context.Context, asked, all []Worker) []Worker {
	missed := k.Registry.clocks.Now().UTC()
	found := make([]bool, len(asked))
	var looking sync.WaitGroup
	for i, w := range asked {
		looking.Go(func() {
			found[i] = k.Registry.workers.IsMissing(ctx, w.token()) &&
				(k.Registry.workers.Settled() || overdue(w, all, missed))
		})
	}
	looking.Wait()
	var gone []Worker
	for i, w := range asked {
		if found[i] {
			w.Ended, w.FoundBy = missed, k.Entry().Name
			gone = append(gone, w)
		}
	}
	return gone
}

// reconnectSlack is the time that a worker gets to store its entry again after
// the server was away.
const reconnectSlack = 5 * time.Second

// overdue reports whether the entry of a worker is too old, though the server
// was there when it was due: it has stored the entry of another worker since,
// and the worker had time to connect again.
func overdue(w Worker, all []Worker, now time.Time) bool {
	return now.Sub(w.Seen) >= staleAge && slices.ContainsFunc(all, func(other Worker) bool {
		return other.Seen.Sub(w.Seen) >= refreshInterval+reconnectSlack && now.Sub(other.Seen) >= reconnectSlack
	})
}

// mark stores the ends of workers that are gone, also in the list of all. It
// returns those that no other keeper has marked.
func (k *Keeper) mark(ctx context.Context, gone, all []Worker) (marked []Worker) {
	for _, w := range gone {
		var err error
		if w.rev, err = k.put(ctx, w.rev, w.Entry); err == nil {
			marked = append(marked, w)
			all[slices.IndexFunc(all, func(other Worker) bool { return other.Name == w.Name })] = w
		}
	}
	return marked
}

// tell calls Found for workers that are gone. No worker serves an agent any more
// that only workers serve which are gone.
func (k *Keeper) tell(ctx context.Context, gone, all []Worker) {
	survey := k.Registry.surveyOf(all)
	own := named(all, k.Entry().Name)
	for _, w := range gone {
		var unserved []string
		for _, agent := range w.Agents {
			if !own.serves(agent) && survey.Serving(ctx, agent).Unserved() {
				unserved = append(unserved, agent)
			}
		}
		k.Found(w, unserved)
	}
}

const (
	// maxEnded is the number of ended workers with an entry. With the
	// entries of a thousand that died in an hour, each worker would read
	// them all each second.
	maxEnded = 100
	// forgottenMore is the number of entries that are removed at a time
	// beyond twice the number of workers that have ended.
	forgottenMore = 8
	// forgetTimeout bounds the removal of entries.
	forgetTimeout = 2 * time.Second
)

// forgetOld removes entries of workers that ended before the last maxEnded
// ones, some more than have ended now. It keeps the last entry of an agent that
// no worker serves any more.
func (k *Keeper) forgetOld(ctx context.Context, all []Worker, ended int) {
	if k.mayNotForget {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	old := spare(all)
	for _, w := range old[:min(len(old), 2*ended+forgottenMore)] {
		if err := k.Registry.workers.Forget(ctx, w.token(), w.rev); err != nil {
			// A user made by an earlier version may not. The server
			// removes the entries after a day.
			k.mayNotForget = bus.Forbidden(err)
			return
		}
	}
}

// spare returns the workers beyond the last maxEnded that have ended, the one
// that ended last first. It leaves out a worker with an agent that none of the
// others serves or served.
func spare(all []Worker) (old []Worker) {
	hasEnded := func(w Worker) bool { return !w.Ended.IsZero() }
	there := slices.DeleteFunc(slices.Clone(all), hasEnded)
	ended := slices.DeleteFunc(slices.Clone(all), func(w Worker) bool { return !hasEnded(w) })
	if len(ended) <= maxEnded {
		return nil
	}
	slices.SortStableFunc(ended, func(a, b Worker) int { return b.Ended.Compare(a.Ended) })
	served := map[string]bool{}
	for i, w := range slices.Concat(there, ended) {
		agents := w.Agents
		if w.AgentsIn != "" {
			agents = []string{"list " + w.AgentsIn}
		}
		known := !slices.ContainsFunc(agents, func(agent string) bool { return !served[agent] })
		if known && i >= len(there)+maxEnded {
			old = append(old, w)
			continue
		}
		for _, agent := range agents {
			served[agent] = true
		}
	}
	return old
}

// put stores an entry over the one of the revision was. A long list of agents
// is stored before it.
func (k *Keeper) put(ctx context.Context, was uint64, entry Entry) (rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if entry.AgentsIn = listOf(entry.Agents); entry.AgentsIn != "" {
		if err := k.Registry.lists.keep(ctx, entry.AgentsIn, entry.Agents); err != nil {
			return 0, err
		}
		entry.Agents = []string{}
	}
	body, err := json.Marshal(entry)
	if err != nil {
		return 0, err
	}
	return k.Registry.workers.Swap(ctx, Worker{Entry: entry}.token(), was, body)
}

// named returns the worker of a name, the zero Worker if there is none.
func named(all []Worker, name string) Worker {
	i := slices.IndexFunc(all, func(w Worker) bool { return w.Name == name })
	if i < 0 {
		return Worker{}
	}
	return all[i]
}

// neighbours returns the workers that have not ended, without the one of a
// name: those that follow it by name, and then those before it.
func neighbours(all []Worker, name string) []Worker {
	there := slices.DeleteFunc(slices.Clone(all), func(w Worker) bool { return !w.Ended.IsZero() || w.Name == name })
	i := slices.IndexFunc(there, func(w Worker) bool { return w.Name > name })
	if i < 0 {
		return there
	}
	return slices.Concat(there[i:], there[:i])
}

// equal reports whether two entries are the same in JSON.
func equal(a, b Entry) bool {
	if a.AgentsIn != "" && a.AgentsIn == b.AgentsIn {
		a.Agents, b.Agents = nil, nil
	}
	left, err := json.Marshal(a)
	right, failed := json.Marshal(b)
	return err == nil && failed == nil && bytes.Equal(left, right)
}
