package presence

import (
	"cmp"
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
)

// held is the stored list of the messages that a worker has in hand.
type held struct {
	mu   sync.Mutex
	list []bus.Held
	rev  uint64
}

// letGo returns the stored list, and forgets it.
func (h *held) letGo() []bus.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.list
	h.list = nil
	return list
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
	k.held.mu.Lock()
	defer k.held.mu.Unlock()
	same := func(a, b bus.Held) bool { return a.Ack == b.Ack }
	if slices.EqualFunc(now, k.held.list, same) {
		return
	}
	entry := Worker{Entry: k.Entry()}
	write, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	list := bus.HeldList{Process: entry.Since, Messages: now}
	rev, err := k.Registry.workers.PutHeld(write, entry.token(), k.held.rev, list)
	if err != nil {
		// Another process with this name has stored its list, or this
		// write was stored and its answer lost.
		if _, rev, err := k.Registry.workers.HeldBy(write, entry.token()); err == nil {
			k.held.rev = rev
		}
		return
	}
	k.held.rev = rev
	k.held.list = now
}

// giveBackPredecessor gives back what an earlier process with this worker's
// name had in hand, if that process is gone and no worker has noticed it.
func (k *Keeper) giveBackPredecessor(ctx context.Context) {
	all, _ := k.Registry.Workers(ctx)
	own := named(all, k.Entry().Name)
	if own.Name == "" || !own.Ended.IsZero() || !k.Registry.workers.IsGone(ctx, own.token()) {
		return
	}
	k.giveBack(ctx, own)
}

// giveBack gives back what a process that is gone had in hand. What it had not
// listed comes again when the lease is over.
//
// A death may be noticed after a lease was over. The server has delivered the
// message again then, and would take it from the worker that has it now: it
// gives back a message by any of its deliveries. So a message of a run that a
// live worker has in hand is left out.
func (k *Keeper) giveBack(ctx context.Context, gone Worker) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	list, _, err := k.Registry.workers.HeldBy(ctx, gone.token())
	if err != nil || !list.Process.Equal(gone.Since) {
		return
	}
	list.Messages = k.Registry.untaken(ctx, list.Messages)
	if len(list.Messages) == 0 {
		return
	}
	if k.Registry.workers.GiveBack(ctx, list.Messages) == nil {
		k.GivenBack(gone.Name, len(list.Messages))
	}
}

// untaken returns the messages of a list of which no live worker has the run in
// hand.
func (r Registry) untaken(ctx context.Context, list []bus.Held) []bus.Held {
	if len(list) == 0 {
		return nil
	}
	survey, err := r.Survey(ctx)
	if err != nil {
		return nil // they come again when their leases are over
	}
	taken := map[subjects.Run]bool{}
	for _, b := range survey.AtWork(ctx, subjects.Tree{}) {
		for _, h := range b.Runs {
			taken[r.space().Run(h.Agent, h.Tree, h.Path)] = true
		}
	}
	return slices.DeleteFunc(list, func(m bus.Held) bool {
		at, err := r.space().Parse(m.Subject)
		return err == nil && taken[r.space().Run(at.Run.Agent, at.Run.Tree, cmp.Or(at.Run.Path, subjects.Root))]
	})
}
