package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// TestWaitEndedMalformedOutcome: WaitEnded takes a malformed outcome for the
// end of a tree, as Wait does.
func TestWaitEndedMalformedOutcome(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("echo", "x", "")
		m := bus.Message{Subject: h.conn.Space().Result(h.agent("echo"), tree), Body: []byte(`{"status":"perhaps"}`)}
		if _, err := h.conn.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		left, err := h.WaitEnded(ctx, tree, subjects.Root, func(client.Event) {})
		if left != 0 || err != nil {
			t.Errorf("%d runs abandoned, %v; want none and no error, since an outcome is stored", left, err)
		}
	})
}

// TestWaitEndedWithoutAWorker: a cancelled tree has a child whose agent no
// worker serves. WaitEnded abandons the child after the child's deadline.
func TestWaitEndedWithoutAWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		root := h.conn.Space().Run(h.agent("slowlead"), h.submit("slowlead", "x", ""), subjects.Root)
		time.Sleep(time.Minute)
		// a call of an agent without a worker
		child := root.Space.Run(h.agent("gone"), root.Tree, root.Path.Child(1, 1))
		head := subjects.Header{
			Tree: root.Tree, Path: child.Path, Parent: root.Agent, Depth: 1, MaxDepth: 5,
			Deadline: time.Now().Add(10 * time.Minute), Reply: root.Reply(1, 1),
		}
		call := bus.Message{Subject: child.Call(), Header: head.Pairs(), Body: []byte(`{"task":"x"}`)}
		if _, err := h.conn.Write(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if err := h.Cancel(t.Context(), root.Tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		left, err := h.WaitEnded(ctx, root.Tree, subjects.Root, func(client.Event) {})
		if left != 1 || err != nil {
			t.Errorf("%d runs abandoned, %v; want 1 and no error", left, err)
		}
	})
}
