package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// TestForget: a tree is removed once all its runs have ended and it is quiet.
// A tree at work, and a task that no worker has taken, are refused. Nothing of
// a removed tree comes back later, and its id is free.
func TestForget(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.timeout = time.Minute
		expect := func(tree subjects.Tree, wantFound bool, want error) {
			t.Helper()
			found, err := client.Forget(t.Context(), h.Client, tree)
			if found != wantFound || !errors.Is(err, want) {
				t.Errorf("forget %s: found %t, %v; want %t, %v", tree, found, err, wantFound, want)
			}
		}
		expect(client.TreeID("none"), false, nil)
		tree := h.submit("lead", "a", "one")
		expect(tree, true, client.ErrAtWork)
		h.startWorker()
		time.Sleep(100 * time.Millisecond)
		expect(tree, true, client.ErrAtWork)
		if _, err := h.Wait(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		expect(tree, true, nil)
		expect(tree, false, nil)
		time.Sleep(2 * h.timeout)
		space := h.conn.Space()
		for _, filter := range space.PartsOfTree(tree) {
			ms, err := h.conn.ReadByScan(t.Context(), filter, 0)
			if err != nil || len(ms) > 0 {
				t.Errorf("%d messages of %s, %v; want none", len(ms), filter, err)
			}
		}
		if _, err := h.Wait(t.Context(), tree); !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("wait: got %v, want %v", err, client.ErrUnknownTree)
		}
		h.answers(h.submit("echo", "b", "one"), "echo: b")
	})
}
