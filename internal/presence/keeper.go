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
	"github.com/axebus/axe/subjects"
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
// those that follow, many at once. It marks the entries of all that are gone,
// and gives back the messages that they had in hand. So a bus with at least two
// workers goes on half a second after a death, for one read and four requests a
// second for each worker.
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
	// gonePredecessor is the begin of the process with this worker's name
	// that was gone when this one began, zero without one.
	gonePredecessor time.Time
	namesake        bool
	// refreshed is the time of the last write of the entry.
	refreshed time.Time
	// held is the list that this worker has stored last.
	held held
}

// Run keeps the entry until ctx ends, and then notes the worker's end. A bus
// that fails meanwhile does not end it.
func (k *Keeper) Run(ctx context.Context) error {
	k.giveBackPredecessor(ctx)
	answers := bus.Answers{Recall: k.Recall, Work: func(tree string) []byte { return encodeWork(k.Work(tree)) }}
	if err := k.Registry.workers.Answer(ctx, Worker{Entry: k.Entry()}.token(), answers); err != nil {
		return err
	}
	var keeping sync.WaitGroup
	keeping.Go(func() { k.keepHeld(ctx) })
	entered := sync.OnceFunc(k.Entered)
	var all []Worker
	var listed time.Time
	for ctx.Err() == nil {
		if time.Since(listed) >= listInterval {
			// Without a list the worker has no entry, or the next
			// list has it.
			all, _ = k.Registry.Recent(ctx)
			listed = time.Now()
			k.refresh(ctx, all)
			entered()
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
	own := k.own(ctx, all)
	if own.Since.Equal(entry.Since) && own.FoundBy != "" {
		k.Registry.workers.LetGo(k.held.letGo())
		k.Mistaken(own.FoundBy)
	}
	switch {
	case k.isNamesake(own):
		if !k.namesake {
			k.namesake = true
			k.Namesake(own)
		}
		return
	case !own.Since.Equal(entry.Since) && own.Ended.IsZero():
		k.predecessor = own.Seen
	}
	entry.Predecessor = k.predecessor
	entry.AgentsIn = listOf(entry.Agents)
	if equal(own.Entry, entry) && time.Since(k.refreshed) < refreshInterval {
		return
	}
	if k.put(ctx, own.rev, entry) == nil {
		k.refreshed = time.Now()
	}
}

// own returns the stored entry under the worker's name: that of a list, or else
// an older one. It has no name if there is none, or none that can be read.
func (k *Keeper) own(ctx context.Context, all []Worker) Worker {
	name := k.Entry().Name
	if own := named(all, name); own.Name != "" {
		return own
	}
	m, ok, err := k.Registry.workers.Entry(ctx, subjects.WorkerOf(name))
	if err != nil || !ok {
		return Worker{}
	}
	own, _ := k.Registry.decode(ctx, m)
	return own
}

// isNamesake reports whether the stored entry under the worker's name is that
// of a later process that is there. A process that was found gone may seem to
// have begun later: the server's clock was set back since.
func (k *Keeper) isNamesake(own Worker) bool {
	return own.Since.After(k.Entry().Since) && own.Ended.IsZero() && !own.Since.Equal(k.gonePredecessor)
}

// sayFarewell notes that the worker has ended, unless the entry is that of a
// later process of the same name that is there.
func (k *Keeper) sayFarewell(ctx context.Context) {
	entry := k.Entry()
	own := k.own(ctx, nil)
	if k.isNamesake(own) {
		return
	}
	entry.Ended = k.Registry.clocks.Now().UTC()
	_ = k.put(ctx, own.rev, entry)
}

// maxLooks bounds the number of workers that are asked at once.
const maxLooks = 64

// checkNeighbours asks the next neighbour for a sign of life. If its process is
// gone, it asks those that follow, ever more of them at once, until one is
// there. It marks the entries of those that are gone, and gives back what they
// had in hand. Of several workers that find one gone, the one that marks the
// entry gives back. checkNeighbours returns true if some are gone: the list has
// to be read again.
func (k *Keeper) checkNeighbours(ctx context.Context, all []Worker) (found bool) {
	rest := neighbours(all, k.Entry().Name)
	for looks := 1; len(rest) > 0; looks = min(4*looks, maxLooks) {
		asked := rest[:min(looks, len(rest))]
		rest = rest[len(asked):]
		gone := k.gone(ctx, asked)
		if len(gone) > 0 {
			found = true
			marked := k.mark(ctx, gone)
			k.giveBack(ctx, marked)
			k.tell(ctx, marked, all)
		}
		if len(gone) < len(asked) {
			break
		}
	}
	return found
}

// gone asks workers for a sign of life, all at once. It returns those that have
// no process, with the time at which it was missed.
func (k *Keeper) gone(ctx context.Context, asked []Worker) []Worker {
	missed := k.Registry.clocks.Now().UTC()
	found := make([]bool, len(asked))
	var looking sync.WaitGroup
	for i, w := range asked {
		looking.Go(func() { found[i] = k.Registry.workers.IsGone(ctx, w.token()) })
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

// mark stores the ends of workers that are gone. It returns those that no other
// keeper has marked.
func (k *Keeper) mark(ctx context.Context, gone []Worker) (marked []Worker) {
	for _, w := range gone {
		if k.put(ctx, w.rev, w.Entry) == nil {
			marked = append(marked, w)
		}
	}
	return marked
}

// tell calls Found for workers that are gone. No worker serves an agent any
// more that only workers serve which are gone.
func (k *Keeper) tell(ctx context.Context, gone, all []Worker) {
	for _, w := range gone {
		all[slices.IndexFunc(all, func(other Worker) bool { return other.Name == w.Name })] = w
	}
	survey := k.Registry.surveyOf(all)
	served := map[string]bool{}
	for _, agent := range k.Entry().Agents {
		served[agent] = true
	}
	for _, w := range gone {
		var unserved []string
		for _, agent := range w.Agents {
			if !served[agent] && survey.Serving(ctx, agent).Unserved() {
				unserved = append(unserved, agent)
			}
		}
		k.Found(w, unserved)
	}
}

// put stores an entry over the one of the revision was. A long list of agents
// is stored before it.
func (k *Keeper) put(ctx context.Context, was uint64, entry Entry) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if entry.AgentsIn = listOf(entry.Agents); entry.AgentsIn != "" {
		if err := k.Registry.lists.keep(ctx, entry.AgentsIn, entry.Agents); err != nil {
			return err
		}
		entry.Agents = []string{}
	}
	body, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	_, err = k.Registry.workers.Swap(ctx, Worker{Entry: entry}.token(), was, body)
	return err
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
