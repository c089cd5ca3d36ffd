package client_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/axebus/axe/subjects"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
)

func TestCancel(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("slowlead", "x", "")
		time.Sleep(time.Minute) // the child's model is asked
		begin := time.Now()
		if err := s.Cancel(t.Context(), tree, subjects.Root, "wrong branch"); err != nil {
			t.Fatal(err)
		}
		o, err := s.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindCancelled || o.Error != "wrong branch" {
			t.Errorf("%+v, %v", o, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		if err := s.Cancel(t.Context(), tree, subjects.Root, ""); !errors.Is(err, client.ErrEnded) {
			t.Errorf("again: %v", err)
		}
	})
}

// TestCancelQueued: a submission is cancelled before any worker has taken it.
func TestCancelQueued(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("echo", "x", "")
		if err := s.Cancel(t.Context(), tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Cancel(t.Context(), tree, subjects.Root, ""); !errors.Is(err, client.ErrCancelled) {
			t.Errorf("again: %v", err)
		}
		s.hire()
		s.answers(tree, "cancelled")
	})
}

// TestSettle: a cancelled run ends before what is below it; Settle waits for
// both, and for those below a run that was cancelled alone.
func TestSettle(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		child, err := subjects.ParsePath("r-1-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range []subjects.Path{subjects.Root, child} {
			tree := s.submit("slowlead", "x", "")
			time.Sleep(time.Minute)
			if err := s.Cancel(t.Context(), tree, top, ""); err != nil {
				t.Fatal(err)
			}
			var ends []string
			left, err := s.WaitEnded(t.Context(), tree, top, func(e client.Event) {
				if e.Kind == client.ChildEnded || e.Kind == client.TreeEnded {
					ends = append(ends, e.Run.Path.String()+" "+string(e.Outcome.Kind))
				}
			})
			if err != nil || left != 0 {
				t.Fatal(left, err)
			}
			if !slices.Contains(ends, "r-1-0 cancelled") ||
				top == subjects.Root && !slices.Contains(ends, "r cancelled") {
				t.Errorf("after the cancel of %s: %q", top, ends)
			}
		}
		if err := s.Cancel(t.Context(), s.submit("slow", "x", ""), child, ""); !errors.Is(err, client.ErrUnknownRun) {
			t.Errorf("a run that there is not: %v", err)
		}
	})
}
