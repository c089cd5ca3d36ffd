package bus

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUsage: MeasureUsage counts the messages, bytes, timers and consumers of
// all partitions. It lists each limit that is set. OldestTree finds the first
// tree.
func TestUsage(t *testing.T) {
	t.Parallel()
	// A tree has six messages on its stream of runs, and a submission. Its
	// large body is 64 chunks and an entry. Its artifact is one chunk and an
	// entry.
	const messagesOfTree = 6 + 1 + 65 + 2
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
		var messages, treeBytes uint64
		bytes := map[string]uint64{}
		for _, s := range u.Streams {
			if !s.OfTrees {
				continue
			}
			messages += s.Messages
			treeBytes += s.Bytes
			bytes[s.Name] = s.Bytes
			if s.Keep != p.MaxAge || (s.Messages > 0) == s.Oldest.IsZero() {
				t.Errorf("%d partitions: %+v", partitions, s)
			}
		}
		// The buckets have five streams, the objects and submissions one each.
		if messages != uint64(len(trees))*messagesOfTree || len(u.Streams) != partitions+2+5 {
			t.Errorf("%d partitions: %d messages on %d streams", partitions, messages, len(u.Streams))
		}
		submit, bodies := c.Space().Name("SUBMIT"), uint64(len(trees)*8<<20)
		if objects := bytes["OBJ_"+c.Space().Name("OBJECTS")]; objects < bodies || objects > bodies+bodies/10 {
			t.Errorf("%d partitions: objects of %d bytes, want %d and their headers", partitions, objects, bodies)
		}
		if u.Timers != len(trees) {
			t.Errorf("%d partitions: %d timers, want %d", partitions, u.Timers, len(trees))
		}
		limits := []Limit{{"keep-bytes", treeBytes, 1 << 30}, {submit, bytes[submit], 1 << 20}}
		if !slices.Equal(u.Limits, limits) || bytes[submit] == 0 {
			t.Errorf("%d partitions: limits %+v, want %+v", partitions, u.Limits, limits)
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
