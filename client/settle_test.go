package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// TestSettleMalformedResult: a result that cannot be read ends a tree, for
// Settle as for Wait.
func TestSettleMalformedResult(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("echo", "x", "")
		m := bus.Message{Subject: s.conn.Space().Result(s.agent("echo"), tree), Body: []byte(`{"status":"perhaps"}`)}
		if _, err := s.conn.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		_, _ = s.WaitEnded(ctx, tree, subjects.Root, func(client.Event) {})
		if ctx.Err() != nil {
			t.Error("it is waited for although it is there")
		}
	})
}

// TestSettleWithoutAWorker: a child whose only worker died has no outcome and
// never will. Its deadline is over, its caller's timer has answered for it; who
// waits for the end of the tree need not wait for ever.
func TestSettleWithoutAWorker(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		root := s.conn.Space().Run(s.agent("slowlead"), s.submit("slowlead", "x", ""), subjects.Root)
		time.Sleep(time.Minute)
		// A call of an agent whose worker is gone, as the caller's
		// worker writes it.
		child := root.Space.Run(s.agent("gone"), root.Tree, root.Path.Child(1, 1))
		head := subjects.Header{
			Tree: root.Tree, Path: child.Path, Parent: root.Agent, Depth: 1, MaxDepth: 5,
			Deadline: time.Now().Add(10 * time.Minute), Reply: root.Reply(1, 1),
		}
		if _, err := s.conn.Write(t.Context(), bus.Message{Subject: child.Call(), Header: head.Pairs(), Body: []byte(`{"task":"x"}`)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Cancel(t.Context(), root.Tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		left, err := s.WaitEnded(ctx, root.Tree, subjects.Root, func(client.Event) {})
		if left != 1 || err != nil {
			t.Errorf("%d left, %v: still waited for long after its deadline", left, err)
		}
	})
}
