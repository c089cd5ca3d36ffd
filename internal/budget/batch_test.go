package budget

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// newRun returns the root of a tree of its own.
func newRun(tb testing.TB, c *bus.Conn) subjects.Run {
	tb.Helper()
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		tb.Fatal(err)
	}
	tree, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		tb.Fatal(err)
	}
	return c.Space().Run(agent, tree, subjects.Root)
}

// fanOut counts two turns for each of n runs in a tally, all runs at the same
// time. It returns the number of turns that were counted without an error.
func fanOut(ctx context.Context, b *batcher, subject string, n int) int64 {
	var counted atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for range 2 {
				err := b.update(ctx, subject, func(t Tally) (Tally, bool) {
					t.Turns++
					return t, true
				})
				if err == nil {
					counted.Add(1)
				}
			}
		})
	}
	all.Wait()
	return counted.Load()
}

// turns returns the turns of the tally at a subject, and the number of its
// messages.
func turns(tb testing.TB, c *bus.Conn, subject string) (counted, messages int) {
	tb.Helper()
	ms, err := c.ReadByScan(tb.Context(), subject, 0)
	if err != nil || len(ms) == 0 {
		tb.Fatalf("%d messages of the tally, error %v; want at least 1", len(ms), err)
	}
	return Decode(ms[len(ms)-1].Body).Turns, len(ms)
}

// TestBatchCountsEachChangeOnce: many goroutines change one tally, and some of
// them are cancelled. Each change without an error counts once. Several changes
// share a message. A cancelled change does not cancel those of others.
func TestBatchCountsEachChangeOnce(t *testing.T) {
	t.Parallel()
	c := testbus.Open(t)
	b := &New(c).batcher
	r := newRun(t, c)
	subject := r.Space.Tally(r.Tree, r.Path)
	cancelled, cancel := context.WithCancel(t.Context())
	var before int64
	var others sync.WaitGroup
	others.Go(func() { before = fanOut(cancelled, b, subject, 50) })
	others.Go(cancel)
	if n := fanOut(t.Context(), b, subject, 100); n != 200 {
		t.Errorf("%d of the changes without a cancellation ended without an error, want 200", n)
	}
	others.Wait()
	counted, messages := turns(t, c, subject)
	if counted < 200+int(before) || counted > 300 || messages >= counted {
		t.Errorf("%d turns in %d messages, want %d to 300 turns, in fewer messages",
			counted, messages, 200+before)
	}
	if len(b.queues) != 0 {
		t.Errorf("%d queues are left, want none", len(b.queues))
	}
}

// BenchmarkFanOut counts 200 turns of 100 runs in one tally: with one batcher,
// and with a batcher for each run, which merges nothing.
func BenchmarkFanOut(b *testing.B) {
	c := testbus.Open(b)
	for range 3 {
		b.Run("batched", func(b *testing.B) {
			for b.Loop() {
				r := newRun(b, c)
				fanOut(b.Context(), &New(c).batcher, r.Space.Tally(r.Tree, r.Path), 100)
			}
		})
		b.Run("plain", func(b *testing.B) {
			for b.Loop() {
				r := newRun(b, c)
				var all sync.WaitGroup
				for range 100 {
					all.Go(func() { fanOut(b.Context(), &New(c).batcher, r.Space.Tally(r.Tree, r.Path), 1) })
				}
				all.Wait()
			}
		})
	}
}
