package client_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// TestCancel: a cancelled tree has an outcome within seconds, with the reason.
// A second cancellation is refused.
func TestCancel(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("slowlead", "x", "")
		time.Sleep(time.Minute) // a worker asks the child's model
		begin := time.Now()
		if err := h.Cancel(t.Context(), tree, subjects.Root, "wrong branch"); err != nil {
			t.Fatal(err)
		}
		o, err := h.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindCancelled || o.Error != "wrong branch" {
			t.Errorf("got %+v, %v; want cancelled, wrong branch", o, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the outcome took %v, want at most 5s", took)
		}
		if err := h.Cancel(t.Context(), tree, subjects.Root, ""); !errors.Is(err, client.ErrEnded) {
			t.Errorf("a second cancellation: got %v, want %v", err, client.ErrEnded)
		}
	})
}

// TestCancelQueued: a submission is cancelled before any worker has taken it.
func TestCancelQueued(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("echo", "x", "")
		if err := h.Cancel(t.Context(), tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		if err := h.Cancel(t.Context(), tree, subjects.Root, ""); !errors.Is(err, client.ErrCancelled) {
			t.Errorf("a second cancellation: got %v, want %v", err, client.ErrCancelled)
		}
		h.startWorker()
		h.answers(tree, "cancelled")
	})
}

// TestWaitEnded: a cancelled run ends before the runs below it. WaitEnded waits
// for all of them, also for the runs below a child that was cancelled alone.
func TestWaitEnded(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		child, err := subjects.ParsePath("r-1-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range []subjects.Path{subjects.Root, child} {
			tree := h.submit("slowlead", "x", "")
			time.Sleep(time.Minute)
			if err := h.Cancel(t.Context(), tree, top, ""); err != nil {
				t.Fatal(err)
			}
			var ends []string
			left, err := h.WaitEnded(t.Context(), tree, top, func(e client.Event) {
				if e.Kind == client.ChildEnded || e.Kind == client.TreeEnded {
					ends = append(ends, e.Run.Path.String()+" "+string(e.Outcome.Kind))
				}
			})
			if err != nil || left != 0 {
				t.Fatalf("%d runs abandoned, %v; want none", left, err)
			}
			if !slices.Contains(ends, "r-1-0 cancelled") ||
				top == subjects.Root && !slices.Contains(ends, "r cancelled") {
				t.Errorf("%s was cancelled: ends %q, want those of %s and of all runs below", top, ends, top)
			}
		}
		if err := h.Cancel(t.Context(), h.submit("slow", "x", ""), child, ""); !errors.Is(err, client.ErrUnknownRun) {
			t.Errorf("an unknown run: got %v, want %v", err, client.ErrUnknownRun)
		}
	})
}
