package chaostest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// TestGroupsSurviveKills kills a server again and again while 32 writers store
// calls in groups. A write that has returned a sequence is stored there. One
// that its own fence has refused is stored too: the answer was lost. The group
// that was sent again is refused with it, so that its writes go on alone. No
// call is stored twice.
func TestGroupsSurviveKills(t *testing.T) {
	const writers, kills = 32, 20
	s := newServers(t, newGroup(t, newJournal(t)), 1, t.TempDir())
	n := s.nodes[0]
	if err := s.up(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	c, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: s.urls()}, GroupFrom: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Provision(t.Context(), bus.Provision{Sync: bus.SyncAlways}); err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent("a")
	if err != nil {
		t.Fatal(err)
	}
	var killed atomic.Bool
	written := make([]map[string]uint64, writers) // 0: refused by its own fence
	var all sync.WaitGroup
	for w := range writers {
		written[w] = map[string]uint64{}
		all.Go(func() {
			for i := 0; !killed.Load(); i++ {
				tree, err := subjects.ParseTree(fmt.Sprintf("W%dT%d", w, i))
				if err != nil {
					t.Error(err)
					return
				}
				call := c.Space().Run(agent, tree, subjects.Root).Call()
				m := bus.Message{Subject: call, Body: []byte(call), Fence: bus.After(call, 0)}
				seq, err := c.Write(t.Context(), m)
				if _, refused := errors.AsType[*bus.ConflictError](err); err != nil && !refused {
					t.Errorf("%s: %v", call, err)
					return
				}
				written[w][call] = seq
			}
		})
	}
	for k := range kills {
		if err := pause.For(t.Context(), time.Duration(60+7*k)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		n.proc.kill()
		if err := s.up(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	killed.Store(true)
	all.Wait()
	stored, grouped, refused := map[string]uint64{}, 0, 0
	for m, err := range c.Scan(t.Context(), c.Space().All(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if stored[m.Subject] > 0 || string(m.Body) != m.Subject {
			t.Errorf("message %d, %s, is the second one or has another's body: %q", m.Seq, m.Subject, m.Body)
		}
		stored[m.Subject] = m.Seq
		if m.Header.Get("Nats-Batch-Id") != "" {
			grouped++
		}
	}
	total := 0
	for _, calls := range written {
		total += len(calls)
		for call, seq := range calls {
			if seq == 0 {
				refused++
			}
			if stored[call] == 0 || seq > 0 && stored[call] != seq {
				t.Errorf("%s is message %d, and its write returned %d", call, stored[call], seq)
			}
		}
	}
	if len(stored) != total || grouped < total/10 {
		t.Errorf("%d messages of %d writes, %d of them in groups; want one of each, and a tenth in groups",
			len(stored), total, grouped)
	}
	t.Logf("%d kills: %d writes, %d of them in groups, %d without an answer", kills, total, grouped, refused)
}
