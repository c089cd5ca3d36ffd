package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/axebus/axe/subjects"
)

// TestTreesStayInTheirPartition: the messages of a tree are written to the
// stream of its partition, and read there. Reads and watches of all trees cover
// all four streams.
func TestTreesStayInTheirPartition(t *testing.T) {
	const n = 4
	server := serveT(t, ServerConfig{})
	worker, other := openT(t, Dial{Server: server}, false), openT(t, Dial{Server: server}, false)
	if err := worker.Provision(t.Context(), Provision{Partitions: n}); err != nil {
		t.Fatal(err)
	}
	if err := other.Provisioned(t.Context()); err != nil {
		t.Fatal(err)
	}
	space := other.Space()
	if space.Partitions() != n || worker.Space() != space {
		t.Fatalf("%d partitions, and %d for the worker that made them; want %d",
			space.Partitions(), worker.Space().Partitions(), n)
	}
	watched := make(chan Stored, 100)
	err := other.Watch(t.Context(), space.Live(space.Calls(agentT(t, "a"))), func(m Stored) { watched <- m })
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := other.Flush(soon); err != nil {
		t.Fatal(err)
	}
	const trees = 40
	per := map[int]int{}
	for i := range trees {
		tree, err := subjects.ParseTree(fmt.Sprint("T", i))
		if err != nil {
			t.Fatal(err)
		}
		r := space.Run(agentT(t, "a"), tree, subjects.Root)
		per[r.Partition()]++
		seq, err := worker.Write(t.Context(), Message{Subject: r.Call(), Fence: After(r.Call(), 0)})
		if err != nil || seq != uint64(per[r.Partition()]) {
			t.Errorf("%s is message %d, error %v: want %d of its stream", r, seq, err, per[r.Partition()])
		}
		_, err = other.Write(t.Context(), Message{Subject: r.Call(), Fence: After(r.Call(), 0)})
		if _, conflict := errors.AsType[*ConflictError](err); !conflict {
			t.Errorf("a second call of %s: got %v, want a conflict", r, err)
		}
		if m, ok, err := other.First(t.Context(), r.Call()); !ok || m.Seq != seq || err != nil {
			t.Errorf("first of %s: %d, error %v; want %d", r, m.Seq, err, seq)
		}
		if last, err := other.LastSeq(t.Context(), r.All()); last != seq || err != nil {
			t.Errorf("last of %s: %d, error %v; want %d", r, last, err, seq)
		}
		if m := <-watched; m.Subject != r.Call() || m.Seq != seq {
			t.Errorf("watched %s, message %d; want %s, message %d", m.Subject, m.Seq, r.Call(), seq)
		}
	}
	if len(per) != n {
		t.Fatalf("trees by partition %v, want some in each of %d", per, n)
	}
	seen := map[int]uint64{}
	for m, err := range other.Scan(t.Context(), space.All(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		p, _ := space.PartitionIn(m.Subject)
		if m.Seq != seen[p]+1 {
			t.Errorf("partition %d: message %d, want %d", p, m.Seq, seen[p]+1)
		}
		seen[p] = m.Seq
	}
	bounds, err := other.Bounds(t.Context())
	if err != nil || len(bounds) != n {
		t.Fatalf("bounds %v, error %v; want %d", bounds, err, n)
	}
	for p, b := range bounds {
		if b != (Bounds{First: 1, Last: uint64(per[p])}) || seen[p] != b.Last {
			t.Errorf("partition %d: bounds %v, read up to %d, want %d", p, b, seen[p], per[p])
		}
	}
	ctx, caught := context.WithCancelCause(t.Context())
	done, got := errors.New("caught up"), make(chan Stored, trees)
	err = other.Follow(ctx, space.All(), func(m Stored) { got <- m }, func() { caught(done) })
	if !errors.Is(err, done) || len(got) != trees {
		t.Errorf("followed %d messages, error %v; want %d", len(got), err, trees)
	}
}

// TestPartitionsCannotChange: Provision refuses another number of partitions
// than the streams have. With 0 it keeps their number.
func TestPartitionsCannotChange(t *testing.T) {
	for _, have := range []int{1, 3} {
		server := serveT(t, ServerConfig{})
		c := openT(t, Dial{Server: server}, false)
		if err := c.Provision(t.Context(), Provision{Partitions: have}); err != nil {
			t.Fatal(err)
		}
		for want, refused := range map[int]bool{0: false, have: false, 2: true, 4: true} {
			c := openT(t, Dial{Server: server}, false)
			err := c.Provision(t.Context(), Provision{Partitions: want})
			switch {
			case errors.Is(err, ErrPartitions) != refused, !refused && err != nil:
				t.Errorf("%d partitions where there are %d: got %v, want refused %t", want, have, err, refused)
			case err == nil && c.Space().Partitions() != have:
				t.Errorf("%d partitions wanted: the space has %d, want %d", want, c.Space().Partitions(), have)
			}
		}
		if err := c.Provision(t.Context(), Provision{Partitions: MostPartitions + 1}); err == nil {
			t.Errorf("no error for %d partitions, want one above %d", MostPartitions+1, MostPartitions)
		}
	}
}
