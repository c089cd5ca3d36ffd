package bus

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/subjects"
)

// TestReadWhole: a read of a tree with more subjects than a server reads at
// once returns the same messages as a scan. A tenth of the runs have several
// entries on their logs. Large bodies make a part that one read does not bring.
func TestReadWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	root := c.Space().Run(agentT(t, "a"), treeT(t, "T"), subjects.Root)
	write := func(subject string, bytes int) {
		if _, err := c.Write(t.Context(), Message{Subject: subject, Body: make([]byte, bytes)}); err != nil {
			t.Fatal(err)
		}
	}
	write(root.Call(), 0)
	for i := range 1500 {
		below := root
		below.Path = root.Path.Child(1, i)
		bytes := 10
		if i < 100 {
			bytes = 800 << 10
		}
		write(below.Call(), bytes)
		for range i % 10 / 8 * 3 {
			write(below.Log(), 10)
		}
		other := below
		other.Tree = treeT(t, fmt.Sprint("other", i))
		write(other.Call(), 10)
	}
	filter := c.Space().TreeOf(root.Tree)
	counted, err := count(t.Context(), c, filter)
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.ReadByScan(t.Context(), filter, 0)
	if err != nil || len(want) < 1024 {
		t.Fatalf("scan: %d messages, %v", len(want), err)
	}
	got, err := ReadWhole(t.Context(), c, filter)
	if diff := cmp.Diff(places(want), places(got)); diff != "" || err != nil {
		t.Errorf("%v (-scan +whole):\n%s", err, diff)
	}

	// A message that is stored between the count and the read of its part is
	// left out, and hides no other one.
	write(root.Call(), 10)
	write(root.Log(), 10)
	w := &wholeRead{conn: c, counted: counted}
	got, err = w.read(t.Context(), slices.Sorted(maps.Keys(counted.subjects)))
	if diff := cmp.Diff(places(want), places(got)); diff != "" || err != nil {
		t.Errorf("later messages: %v (-scan +whole):\n%s", err, diff)
	}
}
