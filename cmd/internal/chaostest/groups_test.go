package chaostest

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// TestGroupsSurviveKills kills a server again and again while writers store
// calls in groups.
func TestGroupsSurviveKills(t *testing.T) {
	const kills = 20
	s := newServers(t, newGroup(t, newJournal(t)), 1, t.TempDir())
	w := startWriters(t, s)
	for k := range kills {
		pauseT(t, time.Duration(60+7*k)*time.Millisecond)
		restartT(t, s)
	}
	t.Logf("%d kills: %s", kills, w.end(t))
}

// TestGroupsWithoutRoom takes the room of a server again and again while
// writers store calls in groups. The server may store some messages of a group
// then, and not answer. After a restart it may store the others.
func TestGroupsWithoutRoom(t *testing.T) {
	const rounds = 8
	t.Run("account", func(t *testing.T) {
		s := newServers(t, newGroup(t, newJournal(t)), 1, t.TempDir())
		n := s.nodes[0]
		n.Config = filepath.Join(t.TempDir(), "nats.conf")
		const step = 128 << 10
		if err := n.limit(step); err != nil {
			t.Fatal(err)
		}
		w := startWriters(t, s)
		for round := range rounds {
			pauseT(t, 300*time.Millisecond)
			if round%3 == 2 {
				restartT(t, s)
			}
			if err := n.relimit((round + 2) * step); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.relimit(diskSize); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d times without room: %s", rounds, w.end(t))
	})
	t.Run("disk", func(t *testing.T) {
		disk := newFullDisk(t)
		s := newServers(t, newGroup(t, newJournal(t)), 1, disk.dir)
		w := startWriters(t, s)
		for range rounds {
			pauseT(t, 100*time.Millisecond)
			if err := disk.fill(); err != nil {
				t.Fatal(err)
			}
			pauseT(t, 200*time.Millisecond)
			if err := disk.empty(); err != nil {
				t.Fatal(err)
			}
			restartT(t, s)
		}
		t.Logf("%d times without room: %s", rounds, w.end(t))
	})
}

// restartT kills the only server, and starts it again.
func restartT(t *testing.T, s *servers) {
	t.Helper()
	s.nodes[0].proc.kill()
	if err := s.up(t.Context(), s.nodes[0]); err != nil {
		t.Fatal(err)
	}
}

func pauseT(t *testing.T, d time.Duration) {
	t.Helper()
	if err := pause.For(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// writers store calls, more than one at a time in groups.
type writers struct {
	conn  *bus.Conn
	all   sync.WaitGroup
	ended atomic.Bool
	// written has the sequence that each write of a writer returned; 0: the
	// write was refused by its own fence.
	written []map[string]uint64
}

// startWriters starts a server and 32 writers.
func startWriters(t *testing.T, s *servers) *writers {
	t.Helper()
	if err := s.up(t.Context(), s.nodes[0]); err != nil {
		t.Fatal(err)
	}
	c, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: s.urls()}, GroupFrom: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), bus.Provision{Sync: bus.SyncAlways}); err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent("a")
	if err != nil {
		t.Fatal(err)
	}
	w := &writers{conn: c, written: make([]map[string]uint64, 32)}
	for i := range w.written {
		w.written[i] = map[string]uint64{}
		w.all.Go(func() { w.write(t, agent, i) })
	}
	return w
}

// write stores calls of trees until the writers end.
func (w *writers) write(t *testing.T, agent subjects.Agent, writer int) {
	t.Helper()
	for n := 0; !w.ended.Load(); n++ {
		tree, err := subjects.ParseTree(fmt.Sprintf("W%dT%d", writer, n))
		if err != nil {
			t.Error(err)
			return
		}
		call := w.conn.Space().Run(agent, tree, subjects.Root).Call()
		m := bus.Message{Subject: call, Body: []byte(call), Fence: bus.After(call, 0)}
		seq, err := w.conn.Write(t.Context(), m)
		if _, refused := errors.AsType[*bus.ConflictError](err); err != nil && !refused {
			t.Errorf("%s: %v", call, err)
			return
		}
		w.written[writer][call] = seq
	}
}

// end ends the writers, and checks that each call is stored once, and is the
// message that its write returned. One that its own fence has refused is stored
// too: the answer was lost. The group that was sent again is refused with it,
// so that its writes go on alone.
func (w *writers) end(t *testing.T) string {
	t.Helper()
	w.ended.Store(true)
	w.all.Wait()
	stored, grouped, refused := map[string]uint64{}, 0, 0
	for m, err := range w.conn.Scan(t.Context(), w.conn.Space().All(), 0) {
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
	for _, calls := range w.written {
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
	return fmt.Sprintf("%d writes, %d of them in groups, %d without an answer", total, grouped, refused)
}
