package client_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/client"
)

// TestStalled: the only worker of a run drains, and starts again later. A
// follower gets an event within 2.5 s of the drain and within 5 s of the start.
// In between the event repeats, and says Again.
func TestStalled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		drain := h.startWorker()
		tree := h.submit("slow", "x", "")
		var mu sync.Mutex
		var stalled []client.Event
		// last returns the last event Stalled, or the zero event if
		// there is none.
		last := func() client.Event {
			mu.Lock()
			defer mu.Unlock()
			if len(stalled) == 0 {
				return client.Event{}
			}
			return stalled[len(stalled)-1]
		}
		var following sync.WaitGroup
		following.Go(func() {
			err := h.Follow(h.t.Context(), tree, func(e client.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == client.Stalled {
					stalled = append(stalled, e)
				}
			})
			if err != nil {
				h.t.Error(err)
			}
		})
		// expectStalls checks the number of stalled runs, and their
		// reasons.
		expectStalls := func(want int) {
			h.t.Helper()
			events, err := h.Stalls(h.t.Context(), tree)
			if err != nil || len(events) != want {
				h.t.Errorf("%d stalled runs, %v; want %d", len(events), err, want)
			}
			for _, e := range events {
				if !strings.HasPrefix(e.Reason, "no worker serves slow since ") {
					h.t.Errorf("reason %q, want that no worker serves slow", e.Reason)
				}
			}
		}
		time.Sleep(time.Minute)
		expectStalls(0)
		if e := last(); e.Kind != "" {
			h.t.Errorf("with a worker: got an event Stalled with the reason %q, want none", e.Reason)
		}
		drain()
		time.Sleep(2500 * time.Millisecond)
		if want := "no worker serves slow since 1 s; workers that did: w1"; last().Reason != want {
			h.t.Errorf("without a worker: reason %q, want %q", last().Reason, want)
		}
		if e := last(); e.Run.Path.String() != "r" || !e.Live() {
			h.t.Errorf("got %+v, want a live event of the root", e)
		}
		expectStalls(1)
		if e := last(); e.Again {
			h.t.Error("the first event says Again, want it without")
		}
		time.Sleep(2 * time.Second)
		if e := last(); !e.Again || !strings.Contains(e.Reason, "since 3 s") {
			h.t.Errorf("two seconds later: got %+v, want Again, since 3 s", e)
		}
		h.startWorker()
		time.Sleep(5 * time.Second)
		if e := last(); e.Reason != "" {
			h.t.Errorf("with a worker again: reason %q, want none", e.Reason)
		}
		expectStalls(0)
		h.answers(tree, "slow: x")
		following.Wait()
	})
}

// TestStalledSubmission: a submission that no worker takes is stalled if all
// workers are gone.
func TestStalledSubmission(t *testing.T) {
	withHarness(t, func(h *harness) {
		drain := h.startWorker()
		drain()
		time.Sleep(3 * time.Minute)
		events, err := h.Stalls(h.t.Context(), h.submit("echo", "x", ""))
		const want = "no worker is there since 3 min; workers that were: w1"
		if err != nil || len(events) != 1 || events[0].Reason != want {
			h.t.Errorf("got %+v, %v; want one event with %q", events, err, want)
		}
	})
}
