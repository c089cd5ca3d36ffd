package agentd

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/subjects"
)

// TestAdmissionAsksForNoMoreThanFits: all sources together ask for no more
// calls than there are free slots, however many sources are busy. With a free
// slot for each source, each asks for at least one call, and the busy ones ask
// for the rest. With fewer, one slot is left for polling.
func TestAdmissionAsksForNoMoreThanFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources, spare := rapid.IntRange(1, 100).Draw(t, "sources"), rapid.IntRange(0, 200).Draw(t, "spare")
		in, now := newAdmission(), time.Now()
		at := func(i int) source { return source{must(subjects.ParseAgent(fmt.Sprint("a", i/2))), i % 2} }
		// The sources have up to this many waiting calls, or none.
		waiting := rapid.SampledFrom([]int{0, 1000}).Draw(t, "most waiting")
		busy := 0
		for i := range sources {
			if rapid.Bool().Draw(t, "busy") {
				in.received(at(i), rapid.IntRange(0, waiting).Draw(t, "waiting"), now)
				busy++
			} else if rapid.Bool().Draw(t, "once") {
				in.received(at(i), waiting, now.Add(-busyWindow-1))
			}
		}
		sum := 0
		for i := range sources {
			n := in.share(at(i), now, sources, spare)
			if n < 0 {
				t.Errorf("source %d of %d asks for %d calls with %d free slots", i, sources, n, spare)
			}
			if spare >= sources && n == 0 {
				t.Errorf("source %d of %d asks for no call with %d free slots", i, sources, spare)
			}
			sum += n
		}
		if sum > spare {
			t.Errorf("%d calls are asked for with %d free slots", sum, spare)
		}
		if spare < sources && spare > 0 && sum == spare {
			t.Errorf("none of %d free slots is left for polling", spare)
		}
		least := sources + min(spare-sources-busy, busy*(maxPerRequest-1))
		if waiting > 0 {
			// The source with the most waiting calls has an equal
			// share at least.
			least = sources + min((spare-sources)/max(busy, 1), maxPerRequest-1)
		}
		if busy > 0 && spare-busy >= sources && sum < least {
			t.Errorf("%d sources, of which %d are busy, ask for only %d calls with %d free slots",
				sources, busy, sum, spare)
		}
	})
}

// TestAdmissionOneBusySource: a busy source gets the slots that the idle ones
// do not need. When it is idle again, it gets as many as they do.
func TestAdmissionOneBusySource(t *testing.T) {
	in, now := newAdmission(), time.Now()
	leaf, other := source{agent: must(subjects.ParseAgent("leaf"))}, source{agent: must(subjects.ParseAgent("other"))}
	if n := in.share(leaf, now, 13, 64); n != 1 {
		t.Errorf("a source asks for %d calls before its first call, want 1", n)
	}
	in.received(leaf, 0, now)
	if n, m := in.share(leaf, now, 13, 40), in.share(other, now, 13, 40); n != 28 || m != 1 {
		t.Errorf("of 40 slots for 13 sources the busy one gets %d and an idle one %d, want 28 and 1", n, m)
	}
	if n, m := in.share(leaf, now, 500, 20), in.share(other, now, 500, 20); n != 19 || m != 0 {
		t.Errorf("of 20 slots for 500 sources the busy one gets %d and an idle one %d, want 19 and 0", n, m)
	}
	if n := in.share(leaf, now.Add(busyWindow+1), 13, 40); n != 1 {
		t.Errorf("a source asks for %d calls when it is idle again, want 1", n)
	}
}

// TestAdmissionWaitingCalls: two busy sources share the slots in proportion to
// their waiting calls. Calls beyond the next request do not count, nor calls
// that waited a while ago.
func TestAdmissionWaitingCalls(t *testing.T) {
	leaf, other := source{agent: must(subjects.ParseAgent("leaf"))}, source{agent: must(subjects.ParseAgent("other"))}
	for _, c := range []struct {
		leaf, other int
		after       time.Duration
		// Shares of 44 free slots for 4 sources.
		wantLeaf, wantOther int
	}{
		{0, 0, 0, 21, 21},
		{3, 0, 0, 32, 9},
		{7, 1, demandWindow, 32, 9},
		{7, 1, demandWindow + 1, 21, 21},
		{1000, 10, 0, 31, 11},
	} {
		in, now := newAdmission(), time.Now()
		in.received(leaf, c.leaf, now)
		in.received(other, c.other, now)
		later := now.Add(c.after)
		if n, m := in.share(leaf, later, 4, 44), in.share(other, later, 4, 44); n != c.wantLeaf || m != c.wantOther {
			t.Errorf("%v after %d and %d calls waited: shares of %d and %d calls, want %d and %d",
				c.after, c.leaf, c.other, n, m, c.wantLeaf, c.wantOther)
		}
	}
}

// TestAdmissionPollPause: the pause of a source is as long as the source has
// had no call. An upper bound that grows with the number of sources keeps all
// of them together at one request in pollInterval.
func TestAdmissionPollPause(t *testing.T) {
	in, now := newAdmission(), time.Now()
	leaf := source{agent: must(subjects.ParseAgent("leaf"))}
	in.received(leaf, 0, now)
	for _, c := range []struct {
		after   time.Duration
		sources int
		want    time.Duration
		longest bool
	}{
		{0, 3, minPollPause, false},
		{30 * time.Millisecond, 3, 30 * time.Millisecond, false},
		{time.Second, 3, maxPollPause, true},
		{time.Second, 1000, time.Second, false},
		{3 * time.Second, 1000, 1000 * pollInterval, true},
	} {
		if d, longest := in.pollPause(leaf, now.Add(c.after), c.sources); d != c.want || longest != c.longest {
			t.Errorf("%v after a call, with %d sources: pause %v, longest %t; want %v, %t",
				c.after, c.sources, d, longest, c.want, c.longest)
		}
	}
	if d, longest := in.pollPause(source{agent: must(subjects.ParseAgent("other"))}, now, 3); d != maxPollPause ||
		!longest {
		t.Errorf("a source without a call: pause %v, longest %t; want %v, true", d, longest, maxPollPause)
	}
}
