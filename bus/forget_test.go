package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// storeTreeT stores a message of each kind that belongs to a tree, a large body
// and an artifact.
func storeTreeT(t *testing.T, c *Conn, id string) subjects.Tree {
	t.Helper()
	tree := treeT(t, id)
	sp := c.Space()
	r := sp.Run(agentT(t, "a"), tree, subjects.Root)
	for _, m := range []Message{
		{Subject: sp.Submit(agentT(t, "a"), tree)},
		{Subject: r.Call(), Body: make([]byte, maxPayload)},
		{Subject: r.Timer(0), Timer: Timer{At: time.Now().Add(time.Hour), Target: r.Fired(0)}},
		{Subject: sp.Tally(tree, subjects.Root)},
		{Subject: r.Dead()},
		{Subject: r.Log()},
		{Subject: sp.Result(agentT(t, "a"), tree)},
	} {
		if _, err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	a := Artifact{Name: "x", Path: "r-1-0"}
	if _, err := ArtifactsOf(c, tree).Store(t.Context(), a, []byte("text")); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestForget: Forget removes a tree from all streams, with its objects, and
// nothing of another tree. The streams do not count as at fault then. A second
// Forget changes nothing.
func TestForget(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
		if err := c.Provision(t.Context(), Provision{Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
		sizes := func() (all []uint64) {
			t.Helper()
			if err := c.Clocks.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, name := range treeStreams(c.Space()) {
				s, err := c.js.Stream(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s.CachedInfo().State.Msgs)
			}
			return all
		}
		sum := func(all []uint64) (n uint64) {
			for _, size := range all {
				n += size
			}
			return n
		}
		first := storeTreeT(t, c, "first")
		one := sum(sizes())
		other := storeTreeT(t, c, "other")
		for range 2 {
			if err := Forget(t.Context(), c, first); err != nil {
				t.Fatal(err)
			}
			if got := sizes(); sum(got) != one {
				t.Errorf("%d partitions: messages %v, want those of one tree, %d", partitions, got, one)
			}
		}
		if _, err := ArtifactsOf(c, other).Find(t.Context(), "x"); err != nil {
			t.Errorf("the artifact of another tree: %v", err)
		}
		m, ok, err := c.First(t.Context(), c.Space().Run(agentT(t, "a"), other, subjects.Root).Call())
		if err != nil || !ok {
			t.Fatalf("the call of another tree: %t, %v", ok, err)
		}
		if body, err := c.Load(t.Context(), m); err != nil || len(body) != maxPayload {
			t.Errorf("the large body of another tree: %d bytes, %v", len(body), err)
		}
		if err := Forget(t.Context(), c, other); err != nil {
			t.Fatal(err)
		}
		if got := sizes(); sum(got) != 0 {
			t.Errorf("%d partitions: messages %v, want none", partitions, got)
		}
		losses, err := c.Health.Losses(t.Context(), time.Hour)
		if err != nil || len(losses) > 0 || len(c.Health.Faults(time.Hour)) > 0 {
			t.Errorf("losses %v, %v, faults %v; want none", losses, err, c.Health.Faults(time.Hour))
		}
	}
}

// TestForgottenIDs: a tree with the id of one that was forgotten a moment ago
// stores its outcomes, though the server still knows the ids of the messages.
// A second message with an id stores nothing while the first one is there.
func TestForgottenIDs(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	tree := treeT(t, "T1")
	result := Message{Subject: c.Space().Result(agentT(t, "a"), tree), ID: "result"}
	other := Message{Subject: c.Space().Result(agentT(t, "a"), treeT(t, "T2")), ID: "other"}
	write := map[string]func(){
		"one": func() {
			if _, err := c.Write(t.Context(), result); err != nil {
				t.Fatal(err)
			}
		},
		"several": func() {
			for _, err := range c.WriteAll(t.Context(), []Message{result, other}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for name, store := range write {
		store()
		store()
		ms, err := c.ReadByScan(t.Context(), result.Subject, 0)
		if err != nil || len(ms) != 1 {
			t.Errorf("%s: %d messages, %v; want one", name, len(ms), err)
		}
		if err := Forget(t.Context(), c, tree); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForgottenBeginning: a beginning of the stream that Forget has removed is
// no loss, and a later purge of more is one.
func TestForgottenBeginning(t *testing.T) {
	t.Parallel()
	now := time.Now()
	state := func(first, last uint64) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{
			Config:  jetstream.StreamConfig{Name: "S", Metadata: map[string]string{metaForgotten: "500"}},
			Created: now.Add(-time.Hour), TimeStamp: now,
			State: jetstream.StreamState{FirstSeq: first, LastSeq: last, Msgs: last + 1 - first},
		}
	}
	for first, gone := range map[uint64]bool{2: false, 501: false, 502: true, 1000: true} {
		_, isLost := lost(state(1, 1000), state(first, 1000))
		if isLost != gone || (removed(state(first, 1000)) > 0) != gone {
			t.Errorf("first sequence %d: lost %t, removed up to %d, want lost %t",
				first, isLost, removed(state(first, 1000)), gone)
		}
	}
}
