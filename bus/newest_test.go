package bus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/subjects"
)

// TestNewest: both walks yield the root calls of a stream from the newest to
// the oldest, whatever lies between them, also from a time on. Large bodies
// make a window that one read does not bring. Removed messages leave holes.
func TestNewest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "other"), subjects.Root)
	calls := c.Space().RootCalls(subjects.Agent{})
	s, err := c.js.Stream(t.Context(), c.streams.Load().names[0])
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		if err := s.Purge(t.Context()); err != nil {
			rt.Fatal(err)
		}
		var want []Stored
		for range rapid.IntRange(0, 6).Draw(rt, "bursts") {
			calls, body := rapid.SampledFrom([]int{1, 3, 10, 150}).Draw(rt, "calls"), []byte("{}")
			if calls < 10 && rapid.IntRange(0, 4).Draw(rt, "large") == 0 {
				body = make([]byte, 3<<19)
			}
			for i := range rapid.SampledFrom([]int{0, 0, 1, 300}).Draw(rt, "between") {
				if _, err := c.Write(t.Context(), Message{Subject: r.Reply(1, i)}); err != nil {
					rt.Fatal(err)
				}
			}
			removed := rapid.IntRange(0, 2*calls).Draw(rt, "removed")
			for i := range calls {
				call := r
				call.Tree = treeT(t, NewID())
				seq, err := c.Write(t.Context(), Message{Subject: call.Call(), Body: body})
				if err != nil {
					rt.Fatal(err)
				}
				if i == removed {
					if err := s.DeleteMsg(t.Context(), seq); err != nil {
						rt.Fatal(err)
					}
					continue
				}
				m, _, err := c.First(t.Context(), call.Call())
				if err != nil {
					rt.Fatal(err)
				}
				want = append(want, m)
			}
		}
		slices.Reverse(want) // the newest first
		skipped := rapid.IntRange(0, len(want)).Draw(rt, "skipped")
		var before time.Time
		if skipped > 0 {
			before = want[skipped-1].Time
		}
		for name, walk := range map[string]func() ([]Stored, error){
			"windows":    func() ([]Stored, error) { return collect(Newest(t.Context(), c, calls, before)) },
			"by subject": func() ([]Stored, error) { return collect(NewestOf(t.Context(), c, calls, before)) },
		} {
			got, err := walk()
			if diff := cmp.Diff(places(want[skipped:]), places(got)); diff != "" || err != nil {
				rt.Fatalf("%s before %s: %v (-want +got):\n%s", name, before, err, diff)
			}
		}
	})
}

// places returns the sequences and subjects of messages.
func places(ms []Stored) (all []string) {
	for _, m := range ms {
		all = append(all, fmt.Sprint(m.Seq, " ", m.Subject))
	}
	return all
}

func collect(seq func(func(Stored, error) bool)) (all []Stored, err error) {
	for m, e := range seq {
		if err = e; err != nil {
			break
		}
		all = append(all, m)
	}
	return all, err
}

// TestNewestReadsLittle: the newest 20 root calls of 3,000 trees with a run
// below each cost a few reads, and at most ten messages for each of them.
func TestNewestReadsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	for i := range 3000 {
		r := c.Space().Run(agentT(t, "a"), treeT(t, fmt.Sprint("t", i)), subjects.Root)
		below := r
		below.Path = r.Path.Child(1, 0)
		for _, subject := range []string{r.Call(), below.Call(), r.Reply(1, 0), c.Space().Result(r.Agent, r.Tree)} {
			if _, err := c.Write(t.Context(), Message{Subject: subject}); err != nil {
				t.Fatal(err)
			}
		}
	}
	was := c.Stats()
	var got []string
	for m, err := range Newest(t.Context(), c, c.Space().RootCalls(subjects.Agent{}), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, m.Subject); len(got) == 20 {
			break
		}
	}
	now := c.Stats()
	falling := func(a, b string) int { return strings.Compare(b, a) }
	if got[19] != "axe.run.a.t2980.r.call" || !slices.IsSortedFunc(got, falling) {
		t.Errorf("got %v, want the calls of t2999 to t2980", got)
	}
	if reads, ms := now.Reads-was.Reads, now.Messages-was.Messages; reads > 4 || ms > 200 {
		t.Errorf("%d reads of %d messages, want at most 4 of 200", reads, ms)
	}
}

// TestNewestPartitions: a walk over several partitions yields the messages in
// the order of their times.
func TestNewestPartitions(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
	if err := c.Provision(t.Context(), Provision{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 100 {
		r := c.Space().Run(agentT(t, "a"), treeT(t, fmt.Sprint("t", i)), subjects.Root)
		if _, err := c.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
			t.Fatal(err)
		}
		want = append([]string{r.Call()}, want...)
	}
	all, err := collect(Newest(t.Context(), c, c.Space().RootCalls(subjects.Agent{}), time.Time{}))
	var got []string
	for _, m := range all {
		got = append(got, m.Subject)
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	later, err := collect(Newest(t.Context(), c, c.Space().RootCalls(subjects.Agent{}), all[9].Time))
	if err != nil || len(later) != 90 || later[0].Subject != want[10] {
		t.Errorf("from the eleventh on: got %d messages, %v", len(later), err)
	}
}
