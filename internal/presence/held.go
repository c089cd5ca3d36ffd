package presence

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

const (
	// heldLeast is the time for which a message has to be in hand to be
	// listed. Most messages are done before, and cost nothing.
	heldLeast = 250 * time.Millisecond
	// heldInterval is the least time between two writes of a list.
	heldInterval = 500 * time.Millisecond
	// giveBackTimeout bounds the giving back of the messages of workers
	// that are gone.
	giveBackTimeout = 5 * time.Second
	// maxAsked is the largest number of times that the live workers are
	// asked for the runs in their hands. They are asked again if an answer
	// took longer than promptly: one of them may have just died, and
	// another one may have taken messages while it was waited for.
	maxAsked = 3
	promptly = 50 * time.Millisecond
)

// held is the stored list of the messages that a worker has in hand.
type held struct {
	// rev is the revision of the list. Only keepHeld uses it.
	rev uint64

	mu   sync.Mutex
	list []bus.Held
	// writing is the list that is being stored, nil if none is.
	writing []bus.Held
	// forgotten says that the stored list may be another one than list.
	forgotten bool
}

// letGo returns the stored list, and the one that is being stored. It forgets
// the stored one.
func (h *held) letGo() []bus.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Concat(h.list, h.writing)
	h.list, h.forgotten = nil, true
	return list
}

// begin notes that a list is being stored. It returns false if the stored list
// is known to have the same messages.
func (h *held) begin(now []bus.Held) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.forgotten && slices.EqualFunc(now, h.list, func(a, b bus.Held) bool { return a.Ack == b.Ack }) {
		return false
	}
	h.writing = now
	return true
}

// end notes whether the list is stored that was being stored.
func (h *held) end(stored bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if stored {
		h.list, h.forgotten = h.writing, false
	}
	h.writing = nil
}

// keepHeld stores the list of the messages in hand when it has changed, twice a
// second at most, until ctx ends. The list of a worker that has drained is
// empty.
func (k *Keeper) keepHeld(ctx context.Context) {
	for pause.For(ctx, heldInterval) == nil {
		k.storeHeld(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	k.storeHeld(ctx)
}

func (k *Keeper) storeHeld(ctx context.Context) {
	now := k.Registry.workers.Held(heldLeast)
	if !k.held.begin(now) {
		return
	}
	entry := Worker{Entry: k.Entry()}
	write, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	list := bus.HeldList{Process: entry.Since, Messages: now}
	rev, err := k.Registry.workers.PutHeld(write, entry.token(), k.held.rev, list)
	k.held.end(err == nil)
	if err != nil {
		// Another process with this name has stored its list, or this
		// write was stored and its answer lost. The next write replaces
		// any value, also one that is no list.
		_, rev, err = k.Registry.workers.HeldBy(write, entry.token())
	}
	if err == nil || rev != 0 {
		k.held.rev = rev
	}
}

// giveBackPredecessor gives back what an earlier process with this worker's
// name had in hand, if that process is gone and no worker has noticed it.
func (k *Keeper) giveBackPredecessor(ctx context.Context) {
	own := k.own(ctx, nil)
	if own.Name == "" || !own.Ended.IsZero() || !k.Registry.workers.IsGone(ctx, own.token()) {
		return
	}
	k.gonePredecessor = own.Since
	k.giveBack(ctx, []Worker{own})
}

// giveBack gives back what processes that are gone had in hand. What they had
// not listed comes again when the lease is over.
//
// If a death is noticed after a lease was over, the server has delivered the
// message again. It gives back a message by any of its deliveries, and so would
// take this one from the worker that has it now. So a message of a run that a
// live worker has in hand is left out. If that worker has named only some of
// its runs, so is every message that it may have. A worker that has not
// answered keeps nothing back: it may be frozen for long, or of a version that
// does not know the question.
func (k *Keeper) giveBack(ctx context.Context, gone []Worker) {
	ctx, cancel := context.WithTimeout(ctx, giveBackTimeout)
	defer cancel()
	var held []Worker
	var lists [][]bus.Held
	for _, w := range gone {
		list, _, err := k.Registry.workers.HeldBy(ctx, w.token())
		if err == nil && list.Process.Equal(w.Since) && len(list.Messages) > 0 {
			held, lists = append(held, w), append(lists, list.Messages)
		}
	}
	if len(held) == 0 {
		return
	}
	var taken taken
	for range maxAsked {
		began := time.Now()
		var err error
		if taken, err = k.Registry.taken(ctx); err != nil {
			return // they come again when their leases are over
		}
		if time.Since(began) < promptly {
			break
		}
	}
	for i, list := range lists {
		list = k.Registry.untaken(list, taken)
		if len(list) > 0 && k.Registry.workers.GiveBack(ctx, list) == nil {
			k.GivenBack(held[i].Name, len(list))
		}
	}
}

// taken are the runs that live workers have in hand, as far as they have said.
type taken struct {
	runs map[subjects.Run]bool
	// crowded are the workers that have named only some of their runs.
	crowded []Busy
}

// has reports whether a live worker has the run of a message in hand, or may
// have the message.
func (t taken) has(m subjects.Address) bool {
	takes := func(b Busy) bool { return m.AnyWorker() || b.Serves(m.Run.Agent.String()) }
	return t.runs[m.Run] || slices.ContainsFunc(t.crowded, takes)
}

// taken returns the runs that live workers have in hand.
func (r Registry) taken(ctx context.Context) (taken, error) {
	t := taken{runs: map[subjects.Run]bool{}}
	all, err := r.Recent(ctx)
	if err != nil {
		return t, err
	}
	for _, b := range r.surveyOf(all).AtWork(ctx, subjects.Tree{}) {
		for _, h := range b.Runs {
			t.runs[r.space().Run(h.Agent, h.Tree, h.Path)] = true
		}
		if b.More > 0 {
			t.crowded = append(t.crowded, b)
		}
	}
	return t, nil
}

// untaken returns the messages of a list of which no run is taken.
func (r Registry) untaken(list []bus.Held, taken taken) []bus.Held {
	return slices.DeleteFunc(list, func(m bus.Held) bool {
		at, err := r.space().Parse(m.Subject)
		return err == nil && taken.has(at)
	})
}
