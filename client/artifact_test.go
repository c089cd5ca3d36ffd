package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// store writes a message with the JSON of a value as its body.
func (h *harness) store(subject string, body any) {
	h.t.Helper()
	b, err := json.Marshal(body)
	if err == nil {
		_, err = h.conn.Write(h.t.Context(), bus.Message{Subject: subject, Body: b})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// storeArtifact stores the artifact "a" of a tree.
func (h *harness) storeArtifact(tree subjects.Tree, b []byte) {
	h.t.Helper()
	if _, err := bus.ArtifactsOf(h.conn, tree).Store(h.t.Context(), bus.Artifact{Name: "a"}, b); err != nil {
		h.t.Fatal(err)
	}
}

// TestArtifacts: in a tree that has not ended, many outcomes of tool runs name
// artifacts, and all of them name a0. A client lists each artifact once, in
// stream order. Artifacts that an outcome of an agent names are not listed.
func TestArtifacts(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := client.TreeID("order4711")
		root := h.conn.Space().Run(h.agent("lead"), tree, subjects.Root)
		if _, err := h.Artifacts(t.Context(), tree); !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("before the tree: %v, want ErrUnknownTree", err)
		}
		h.store(root.Call(), run.Input{Task: "x"})
		const many = 3 * run.MaxArtifacts
		for i := range many {
			a := run.Artifact{Name: fmt.Sprint("a", i), Path: fmt.Sprint("r-1-", i)}
			o := run.Outcome{Status: run.StatusCompleted, Tool: "write_artifact"}
			o.Artifacts = []run.Artifact{a, {Name: "a0"}}
			h.store(root.Reply(1, i), o)
		}
		h.store(root.Reply(2, 0), run.Outcome{Status: run.StatusCompleted, Artifacts: []run.Artifact{{Name: "other"}}})
		all, err := h.Artifacts(t.Context(), tree)
		if err != nil || len(all) != many {
			t.Fatalf("%d artifacts, %v, want %d", len(all), err, many)
		}
		for i, a := range all {
			if a.Name != fmt.Sprint("a", i) || a.Stored.IsZero() {
				t.Errorf("artifact %d: got %+v, want the name a%d and the time at which it was stored", i, a, i)
			}
		}
	})
}

// TestCopyArtifact: a copy writes the bytes of an artifact. Its error tells an
// unknown tree from an unknown name, and an error of the writer is returned.
func TestCopyArtifact(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := client.TreeID("order4711")
		if err := h.CopyArtifact(t.Context(), io.Discard, tree, "a"); !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("before the tree: %v, want ErrUnknownTree", err)
		}
		h.store(h.conn.Space().Run(h.agent("lead"), tree, subjects.Root).Call(), run.Input{Task: "x"})
		if err := h.CopyArtifact(t.Context(), io.Discard, tree, "a"); !errors.Is(err, client.ErrUnknownArtifact) {
			t.Errorf("no such name: %v, want ErrUnknownArtifact", err)
		}
		h.storeArtifact(tree, []byte("text"))
		var b bytes.Buffer
		if err := h.CopyArtifact(t.Context(), &b, tree, "a"); err != nil || b.String() != "text" {
			t.Errorf("got %q, %v; want %q", b.String(), err, "text")
		}
		if err := h.CopyArtifact(t.Context(), brokenPipe{}, tree, "a"); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a writer that fails: got %v, want %v", err, io.ErrClosedPipe)
		}
	})
}

// brokenPipe is a writer that fails at its first write.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestCopyLargeArtifact: the writer of a copy of 20 MiB fails at its first
// write. Until then the copy has read at most 5 MiB. A copy to a writer that
// does not fail has all bytes.
func TestCopyLargeArtifact(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		t := h.t
		tree := client.TreeID("order4711")
		const size, chunk = 20 << 20, 128 << 10
		h.storeArtifact(tree, make([]byte, size))
		before := h.conn.Stats().Messages
		if err := h.CopyArtifact(t.Context(), brokenPipe{}, tree, "a"); !errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("a writer that fails: got %v, want %v", err, io.ErrClosedPipe)
		}
		if n := h.conn.Stats().Messages - before; n == 0 || n > (5<<20)/chunk {
			t.Errorf("the copy has read %d chunks before its first write, want 1 to %d", n, (5<<20)/chunk)
		}
		var whole bytes.Buffer
		if err := h.CopyArtifact(t.Context(), &whole, tree, "a"); err != nil || whole.Len() != size {
			t.Errorf("copied %d bytes, %v, want %d", whole.Len(), err, size)
		}
	})
}
