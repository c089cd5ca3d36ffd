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
// stream of its partition and read there. A filter for all trees reads all
// streams.
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
		t.Fatalf("%d partitions, and %d for the worker that has set them up",
			space.Partitions(), worker.Space().Partitions())
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
		if _, err := other.Write(t.Context(), Message{Subject: r.Call(), Fence: After(r.Call(), 0)}); !errors.As(
			err,
			new(*ConflictError),
		) {
			t.Errorf("a second call of %s: %v", r, err)
		}
		if m, ok, err := other.First(t.Context(), r.Call()); !ok || m.Seq != seq || err != nil {
			t.Errorf("first of %s: %d, error %v", r, m.Seq, err)
		}
		if last, err := other.LastSeq(t.Context(), r.All()); last != seq || err != nil {
			t.Errorf("last of %s: %d, error %v", r, last, err)
		}
		if m := <-watched; m.Subject != r.Call() || m.Seq != seq {
			t.Errorf("watched %s, message %d", m.Subject, m.Seq)
		}
	}
	if len(per) != n {
		t.Fatalf("trees in %v", per)
	}
	seen := map[int]uint64{}
	for m, err := range other.Scan(t.Context(), space.All(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		p, _ := space.PartitionIn(m.Subject)
		if m.Seq != seen[p]+1 {
			t.Errorf("message %d of partition %d after %d", m.Seq, p, seen[p])
		}
		seen[p] = m.Seq
	}
	bounds, err := other.Bounds(t.Context())
	if err != nil || len(bounds) != n {
		t.Fatal(bounds, err)
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
		t.Errorf("followed %d, error %v", len(got), err)
	}
}

// TestPartitionsCannotChange: Provision refuses another number of partitions.
func TestPartitionsCannotChange(t *testing.T) {
	for _, have := range []int{1, 3} {
		server := serveT(t, ServerConfig{})
		c := openT(t, Dial{Server: server}, false)
		if err := c.Provision(t.Context(), Provision{Partitions: have}); err != nil {
			t.Fatal(err)
		}
		for want, refused := range map[int]bool{0: false, have: false, 2: true, 4: true} {
			c := openT(t, Dial{Server: server}, false)
			if err := c.Provision(t.Context(), Provision{Partitions: want}); errors.Is(
				err,
				ErrPartitions,
			) != refused ||
				!refused && err != nil {
				t.Errorf("%d where there are %d: %v", want, have, err)
			} else if err == nil && c.Space().Partitions() != have {
				t.Errorf("%d where there are %d: %d", want, have, c.Space().Partitions())
			}
		}
		if err := c.Provision(t.Context(), Provision{Partitions: MostPartitions + 1}); err == nil {
			t.Error("too many are none too many")
		}
	}
}
