package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/subjects"
)

// groupedT returns a connection to a server that syncs each write. More than
// one write at a time are stored in groups.
func groupedT(tb testing.TB, sync Sync) *Conn {
	tb.Helper()
	server := serveT(tb, ServerConfig{SyncAlways: true})
	c, err := Open(tb.Context(), Config{Dial: Dial{Server: server}, GroupFrom: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	if err := c.Provision(tb.Context(), Provision{Sync: sync}); err != nil {
		tb.Fatal(err)
	}
	return c
}

// callsT returns the first calls of n trees.
func callsT(tb testing.TB, c *Conn, name string, n int) (ms []Message) {
	tb.Helper()
	for i := range n {
		tree, err := subjects.ParseTree(fmt.Sprint(name, i))
		if err != nil {
			tb.Fatal(err)
		}
		call := c.Space().Run(agentT(tb, "a"), tree, subjects.Root).Call()
		ms = append(ms, Message{Subject: call, Body: fmt.Append(nil, "task ", i), Fence: After(call, 0)})
	}
	return ms
}

// writeAtOnce writes messages, each with a Write of its own.
func writeAtOnce(ctx context.Context, c *Conn, ms []Message) (seqs []uint64, errs []error) {
	seqs, errs = make([]uint64, len(ms)), make([]error, len(ms))
	var writes sync.WaitGroup
	for i, m := range ms {
		writes.Go(func() { seqs[i], errs[i] = c.Write(ctx, m) })
	}
	writes.Wait()
	return seqs, errs
}

// groupedIn reads the message of each subject, and returns the number of those
// that were stored in a group. Seqs are the sequences that the writes returned;
// nil: unknown.
func groupedIn(t *testing.T, c *Conn, ms []Message, seqs []uint64) (n int) {
	t.Helper()
	for i, m := range ms {
		s, there, err := c.First(t.Context(), m.Subject)
		if !there || err != nil {
			t.Fatalf("%s is not stored: %v", m.Subject, err)
		}
		if diff := cmp.Diff(string(m.Body), string(s.Body)); diff != "" {
			t.Errorf("body of %s (-want +got):\n%s", m.Subject, diff)
		}
		if seqs != nil && s.Seq != seqs[i] {
			t.Errorf("%s is message %d, but its write returned %d", m.Subject, s.Seq, seqs[i])
		}
		if s.Header.Get("Nats-Batch-Id") != "" {
			n++
		}
	}
	return n
}

func noErrorT(t *testing.T, ms []Message, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", ms[i].Subject, err)
		}
	}
}

// TestGroupCommit: writes that wait at the same time are stored in groups. Each
// write returns the sequence of its own message. A write by itself is in none.
func TestGroupCommit(t *testing.T) {
	c := groupedT(t, SyncAlways)
	ms := callsT(t, c, "T", 100)
	seqs, errs := writeAtOnce(t.Context(), c, ms)
	noErrorT(t, ms, errs)
	if n := groupedIn(t, c, ms, seqs); n < len(ms)/2 {
		t.Errorf("%d of %d messages are in groups, want most", n, len(ms))
	}
	one := callsT(t, c, "one", 1)
	seqs, errs = writeAtOnce(t.Context(), c, one)
	noErrorT(t, one, errs)
	if n := groupedIn(t, c, one, seqs); n != 0 {
		t.Error("a write without others is in a group")
	}
}

// TestGroupRefused: a message whose fence does not hold is refused, and the
// others of its group are stored.
func TestGroupRefused(t *testing.T) {
	for name, write := range map[string]func(c *Conn, ms []Message) []error{
		"Write":    func(c *Conn, ms []Message) []error { _, errs := writeAtOnce(t.Context(), c, ms); return errs },
		"WriteAll": func(c *Conn, ms []Message) []error { return c.WriteAll(t.Context(), ms) },
	} {
		t.Run(name, func(t *testing.T) {
			// After a refusal a connection makes no group for a while.
			c := groupedT(t, SyncAlways)
			ms := callsT(t, c, name, 60)
			first, err := c.Write(t.Context(), ms[30])
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range write(c, ms) {
				conflict, refused := errors.AsType[*ConflictError](err)
				switch {
				case i != 30 && err != nil:
					t.Errorf("%s: %v", ms[i].Subject, err)
				case i == 30 && (!refused || *conflict != ConflictError{ms[i].Subject, first}):
					t.Errorf("%s: %v, want a conflict with message %d", ms[i].Subject, err, first)
				}
			}
			groupedIn(t, c, ms, nil)
		})
	}
}

// TestWriteAllGroups: WriteAll stores many messages in groups, in their order.
func TestWriteAllGroups(t *testing.T) {
	c := groupedT(t, SyncAlways)
	ms := callsT(t, c, "T", mostGrouped+44)
	ms[3].Body = make([]byte, mostGroupedBytes/2)
	ms[4].Body = make([]byte, mostGroupedBytes/2)
	noErrorT(t, ms, c.WriteAll(t.Context(), ms))
	seqs := make([]uint64, len(ms))
	for i := range seqs {
		seqs[i] = uint64(i) + 1
	}
	if n := groupedIn(t, c, ms, seqs); n != len(ms) {
		t.Errorf("%d messages are in groups, want all %d", n, len(ms))
	}
}

// TestGroupedTimer: timers in groups fire, and messages in groups remove some.
func TestGroupedTimer(t *testing.T) {
	c := groupedT(t, SyncAlways)
	var timers, ends []Message
	for i := range 20 {
		tree, err := subjects.ParseTree(fmt.Sprint("T", i))
		if err != nil {
			t.Fatal(err)
		}
		r := c.Space().Run(agentT(t, "a"), tree, subjects.Root)
		at := time.Now().Add(time.Hour)
		if i%2 == 0 {
			at = time.Now()
		} else {
			ends = append(ends, Message{Subject: r.Call(), Disarm: r.Timer(0)})
		}
		timer := Timer{At: at, Target: r.Fired(0)}
		timers = append(timers, Message{Subject: r.Timer(0), Body: []byte("{}"), Timer: timer})
	}
	_, errs := writeAtOnce(t.Context(), c, timers)
	noErrorT(t, timers, errs)
	_, errs = writeAtOnce(t.Context(), c, ends)
	noErrorT(t, ends, errs)
	for i, m := range timers {
		if i%2 == 0 {
			continue
		}
		if _, there, err := c.First(t.Context(), m.Subject); there || err != nil {
			t.Errorf("%s is still there after its removal, error %v", m.Subject, err)
		}
	}
	for i, m := range timers {
		if i%2 == 1 {
			continue
		}
		awaitStored(t, c, m.Timer.Target)
	}
	if n := groupedIn(t, c, ends, nil); n == 0 {
		t.Error("no message is in a group")
	}
}

// awaitStored waits until a subject has a message.
func awaitStored(t *testing.T, c *Conn, subject string) {
	t.Helper()
	waitUntil(t, func() bool {
		_, there, err := c.First(t.Context(), subject)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return there
	})
}

// TestGroupsOverARestart: the server stops while writes wait and groups are
// under way. After its restart each message is stored once. A write of which
// the answer was lost may be refused by its own fence.
func TestGroupsOverARestart(t *testing.T) {
	cfg := ServerConfig{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", SyncAlways: true}
	server := serveT(t, cfg)
	c, err := Open(t.Context(), Config{Dial: Dial{URL: server.URL()}, GroupFrom: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), Provision{Sync: SyncAlways}); err != nil {
		t.Fatal(err)
	}
	ms := callsT(t, c, "T", 3000)
	written := make(chan []error)
	go func() {
		_, errs := writeAtOnce(t.Context(), c, ms)
		written <- errs
	}()
	awaitStored(t, c, ms[0].Subject)
	cfg.Listen = server.URL()[len("nats://"):]
	server.Close()
	serveT(t, cfg)
	for i, err := range <-written {
		if _, refused := errors.AsType[*ConflictError](err); err != nil && !refused {
			t.Fatalf("%s: %v", ms[i].Subject, err)
		}
	}
	if n := groupedIn(t, c, ms, nil); n == 0 {
		t.Error("no message is in a group")
	}
	all, err := c.Bounds(t.Context())
	if err != nil || all[0].Last-all[0].First+1 != uint64(len(ms)) {
		t.Errorf("the stream has messages %d to %d, error %v; want %d", all[0].First, all[0].Last, err, len(ms))
	}
}

// TestGroupedWriteCancelled: a write that waits for others ends with the cause
// of its context. The others are stored.
func TestGroupedWriteCancelled(t *testing.T) {
	c := groupedT(t, SyncAlways)
	g := c.streams.Load().commitOf(callsT(t, c, "T", 1)[0].Subject)
	g.mu.Lock()
	g.storing = true // as if a group were under way
	g.mu.Unlock()
	ms := callsT(t, c, "T", 3)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	ended := make(chan error)
	go func() {
		_, err := c.Write(ctx, ms[0])
		ended <- err
	}()
	rest := make(chan []error)
	go func() {
		_, errs := writeAtOnce(t.Context(), c, ms[1:])
		rest <- errs
	}()
	waitUntil(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == len(ms)
	})
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("the write ended with %v, want %v", err, enough)
	}
	g.mu.Lock()
	g.storing = false
	g.next(t.Context())
	g.mu.Unlock()
	noErrorT(t, ms[1:], <-rest)
	groupedIn(t, c, ms[1:], nil)
	if _, there, err := c.First(t.Context(), ms[0].Subject); there || err != nil {
		t.Errorf("the write that ended is stored: %t, error %v", there, err)
	}
}

// TestLeftWriteOfARefusedGroup: a write ends while its group is under way, and
// the server refuses the group. The write does not count as one that is under
// way alone: after some of these, every write would wait.
func TestLeftWriteOfARefusedGroup(t *testing.T) {
	c := groupedT(t, SyncAlways)
	ms := callsT(t, c, "T", 2)
	if _, err := c.Write(t.Context(), ms[1]); err != nil {
		t.Fatal(err)
	}
	var group []*groupedWrite
	for _, m := range ms {
		msg, err := c.message(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, &groupedWrite{msg: msg, turn: make(chan writeTurn, 1)})
	}
	g := c.streams.Load().commitOf(ms[0].Subject)
	g.storing = true
	g.leave(t.Context(), group[0])
	g.storeGroup(t.Context(), group)
	if turn := <-group[1].turn; !turn.alone {
		t.Errorf("the other write of the group gets %+v, want it to go on alone", turn)
	}
	g.ended(t.Context())
	if len(group[0].turn) > 0 || g.alone != 0 {
		t.Errorf("%d writes are under way alone, want none", g.alone)
	}
}

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it takes longer than 10s")
		}
	}
}

// TestProvisionSync: Provision says of existing streams, too, whether writes
// are stored in groups. SyncUnknown leaves them as they are. A connection that
// does not know of the change stores its writes all the same.
func TestProvisionSync(t *testing.T) {
	c := groupedT(t, SyncAlways)
	unaware, err := Open(t.Context(), Config{Dial: c.cfg.Dial, GroupFrom: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unaware.Close)
	if err := unaware.Provisioned(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		sync    Sync
		grouped bool
	}{{SyncUnknown, true}, {SyncAlways, true}, {SyncInterval, false}, {SyncUnknown, false}, {SyncAlways, true}} {
		if err := c.Provision(t.Context(), Provision{Sync: step.sync}); err != nil {
			t.Fatal(err)
		}
		ms := callsT(t, c, fmt.Sprint("T", i), 40)
		_, errs := writeAtOnce(t.Context(), c, ms)
		noErrorT(t, ms, errs)
		if n := groupedIn(t, c, ms, nil); n > 0 != step.grouped {
			t.Errorf("step %d: %d of %d messages are in groups, want some: %t", i, n, len(ms), step.grouped)
		}
		ms = callsT(t, c, fmt.Sprint("U", i), 40)
		_, errs = writeAtOnce(t.Context(), unaware, ms)
		noErrorT(t, ms, errs)
		if n := groupedIn(t, c, ms, nil); n > 0 && !step.grouped {
			t.Errorf("step %d: %d messages are in groups that the stream refuses", i, n)
		}
	}
}

// BenchmarkGroupCommit stores calls of trees on a server that syncs each write,
// 64 at a time: each by itself, and in turn in groups. It reports the calls per
// second of both, and their ratio.
func BenchmarkGroupCommit(b *testing.B) {
	const writers, each = 64, 20
	how := []Sync{SyncInterval, SyncAlways}
	conns, took := make([]*Conn, len(how)), make([]time.Duration, len(how))
	for i, sync := range how {
		conns[i] = groupedT(b, sync)
		conns[i].cfg.GroupFrom = DefaultGroupFrom
	}
	n := 0
	for b.Loop() {
		n++
		for i, c := range conns {
			ms := callsT(b, c, fmt.Sprint("T", n, "x"), writers*each)
			begun := time.Now()
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					for _, m := range ms[w*each : (w+1)*each] {
						if _, err := c.Write(b.Context(), m); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			took[i] += time.Since(begun)
		}
	}
	rate := func(i int) float64 { return float64(n*writers*each) / took[i].Seconds() }
	b.ReportMetric(rate(0), "single/s")
	b.ReportMetric(rate(1), "grouped/s")
	b.ReportMetric(rate(1)/rate(0), "ratio")
}
