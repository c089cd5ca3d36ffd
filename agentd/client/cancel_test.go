package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/agentd/run"
)

func TestCancel(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("slowlead", "x", "")
		time.Sleep(time.Minute) // the child's model is asked
		begin := time.Now()
		if err := s.Cancel(t.Context(), tree, "wrong branch"); err != nil {
			t.Fatal(err)
		}
		o, err := s.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindCancelled || o.Error != "wrong branch" {
			t.Errorf("%+v, %v", o, err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		if err := s.Cancel(t.Context(), tree, ""); !errors.Is(err, client.ErrEnded) {
			t.Errorf("again: %v", err)
		}
	})
}

// TestCancelQueued: a submission is cancelled before any worker has taken it.
func TestCancelQueued(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("echo", "x", "")
		if err := s.Cancel(t.Context(), tree, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Cancel(t.Context(), tree, ""); !errors.Is(err, client.ErrCancelled) {
			t.Errorf("again: %v", err)
		}
		s.hire()
		s.answers(tree, "cancelled")
	})
}
