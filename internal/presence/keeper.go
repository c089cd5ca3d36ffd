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
// worker that follows by name. If the neighbour's process is gone, it marks the
// entry and gives back the messages that the neighbour had in hand. So a bus
// with at least two workers goes on half a second after a death, for one read
// and four requests a second for each worker.
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
	var all []Worker
	var listed time.Time
	for ctx.Err() == nil {
		if time.Since(listed) >= listInterval {
			// Without a list the worker has no entry, or the next
			// list has it.
			all, _ = k.Registry.Workers(ctx)
			listed = time.Now()
			k.refresh(ctx, all)
		}
		if k.checkNeighbour(ctx, all) || k.await(ctx, all) {
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
	if _, ok := neighbour(all, k.Entry().Name); !ok {
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
	if k.put(ctx, own.rev, entry) == nil {
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
	_ = k.put(ctx, own.rev, entry)
}

// checkNeighbour asks the neighbour for a sign of life. If its process is gone,
// checkNeighbour marks the entry, gives back what the neighbour had in hand,
// and returns true: the list has to be read again. Of several workers that find
// it gone, the one that marks the entry gives back.
func (k *Keeper) checkNeighbour(ctx context.Context, all []Worker) bool {
	n, ok := neighbour(all, k.Entry().Name)
	if !ok {
		return false
	}
	missed := k.Registry.clocks.Now().UTC()
	if !k.Registry.workers.IsGone(ctx, n.token()) {
		return false
	}
	gone := n
	gone.Ended = missed
	gone.FoundBy = k.Entry().Name
	if k.put(ctx, n.rev, gone.Entry) == nil {
		k.giveBack(ctx, gone)
		k.Found(gone, k.unserved(ctx, gone, all))
	}
	return true
}

// unserved returns the agents of a worker that is gone which no other worker
// serves.
func (k *Keeper) unserved(ctx context.Context, gone Worker, all []Worker) []string {
	i := slices.IndexFunc(all, func(w Worker) bool { return w.Name == gone.Name })
	all[i] = gone
	var unserved []string
	survey := k.Registry.surveyOf(all)
	for _, agent := range gone.Agents {
		if survey.Serving(ctx, agent).Unserved() {
			unserved = append(unserved, agent)
		}
	}
	return unserved
}

// put stores an entry. A long list of agents is stored before it.
func (k *Keeper) put(ctx context.Context, rev uint64, entry Entry) error {
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
	_, err = k.Registry.workers.Swap(ctx, Worker{Entry: entry}.token(), rev, body)
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

// neighbour returns the worker that follows by name among those that have not
// ended. The first one follows the last one.
func neighbour(all []Worker, name string) (Worker, bool) {
	there := slices.DeleteFunc(slices.Clone(all), func(w Worker) bool { return !w.Ended.IsZero() || w.Name == name })
	if len(there) == 0 {
		return Worker{}, false
	}
	i := slices.IndexFunc(there, func(w Worker) bool { return w.Name > name })
	return there[max(i, 0)], true
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
