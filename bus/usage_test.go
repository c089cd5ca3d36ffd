package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUsage: the usage counts the messages, bytes, timers and consumers of all
// partitions, and has each limit that is set.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
		p := Provision{Partitions: partitions, MaxBytes: 1 << 30, MaxAge: 2 * time.Hour}
		if err := c.Provision(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if err := MakeBuckets(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		trees := []string{"first", "other", "third"}
		for _, id := range trees {
			storeTreeT(t, c, id)
		}
		editT(t, c, c.Space().Name("SUBMIT"), func(s *jetstream.StreamConfig) {
			s.MaxBytes, s.Discard = 1<<20, jetstream.DiscardNew
		})
		consumer := ConsumerConfig{
			Stream: "RUNS", Partition: c.Space().PartitionOf(treeT(t, "first")), Name: "agent_a",
			Filters: []string{c.Space().Calls(agentT(t, "a"))},
		}
		if _, err := c.Consumer(t.Context(), consumer); err != nil {
			t.Fatal(err)
		}
		u, err := MeasureUsage(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		messages, ofTrees := uint64(0), uint64(0)
		for i, s := range u.Streams {
			if !s.OfTrees {
				continue
			}
			messages += s.Messages
			ofTrees += s.Bytes
			if s.Keep != p.MaxAge || (s.Messages > 0) == s.Oldest.IsZero() {
				t.Errorf("%d partitions: %+v", partitions, u.Streams[i])
			}
		}
		// Six messages on the runs' stream and a submission. A large body and
		// an artifact have some more.
		if least := uint64(len(trees)) * (7 + 3 + 2); messages < least || len(u.Streams) != partitions+2+5 {
			t.Errorf("%d partitions: %d messages on %d streams", partitions, messages, len(u.Streams))
		}
		if u.Timers != len(trees) {
			t.Errorf("%d partitions: %d timers, want %d", partitions, u.Timers, len(trees))
		}
		if len(u.Limits) != 2 || u.Limits[0] != (Limit{"keep-bytes", ofTrees, 1 << 30}) || u.Limits[1].Most != 1<<20 {
			t.Errorf("%d partitions: limits %+v", partitions, u.Limits)
		}
		if len(u.Consumers) != 1 || u.Consumers[0].Waiting == 0 || u.Consumers[0].Name != "agent_a" {
			t.Errorf("%d partitions: consumers %+v", partitions, u.Consumers)
		}
		tree, at, ok, err := OldestTree(t.Context(), c)
		if err != nil || !ok || tree != treeT(t, "first") || time.Since(at) > time.Minute {
			t.Errorf("%d partitions: oldest tree %s of %s, %t, %v", partitions, tree, at, ok, err)
		}
	}
}
