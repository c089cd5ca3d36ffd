package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	ms := callsT(t, c, "T", 3)
	g := holdGroups(c, ms[0].Subject)
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
	awaitWaiting(t, g, len(ms))
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("the write ended with %v, want %v", err, enough)
	}
	releaseGroups(t.Context(), g)
	noErrorT(t, ms[1:], <-rest)
	groupedIn(t, c, ms[1:], nil)
	if _, there, err := c.First(t.Context(), ms[0].Subject); there || err != nil {
		t.Errorf("the write that ended is stored: %t, error %v", there, err)
	}
}

// groupOfT makes a group of messages.
func groupOfT(t *testing.T, c *Conn, ms []Message) (group []*groupedWrite) {
	t.Helper()
	for _, m := range ms {
		msg, err := c.message(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, &groupedWrite{msg: msg, turn: make(chan writeTurn, 1)})
	}
	return group
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
	group := groupOfT(t, c, ms)
	g := c.streams.Load().commitOf(ms[0].Subject)
	g.storing = time.Now()
	g.leave(t.Context(), group[0])
	g.storeGroup(t.Context(), group, g.storing)
	if turn := <-group[1].turn; !turn.alone {
		t.Errorf("the other write of the group gets %+v, want it to go on alone", turn)
	}
	g.ended(t.Context())
	if len(group[0].turn) > 0 || g.alone != 0 {
		t.Errorf("%d writes are under way alone, want none", g.alone)
	}
}

// TestGroupOfAForbiddenMessage: the user of a connection may not send one
// message of a group. The write of that message fails, and the others are
// stored, wherever in the group the message is.
func TestGroupOfAForbiddenMessage(t *testing.T) {
	forbidden := Message{Subject: "axe.run.a.F.r.call"}
	url := denyingT(t, forbidden.Subject)
	op := openT(t, Dial{URL: url, User: "op", Password: "x"}, false)
	if err := op.Provision(t.Context(), Provision{Sync: SyncAlways}); err != nil {
		t.Fatal(err)
	}
	for at := range 3 {
		c, err := Open(t.Context(), Config{Dial: Dial{URL: url, User: "bound", Password: "x"}, GroupFrom: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if err := c.Provisioned(t.Context()); err != nil {
			t.Fatal(err)
		}
		ms := slices.Insert(callsT(t, c, fmt.Sprint("T", at), 2), at, forbidden)
		g := holdGroups(c, ms[0].Subject)
		written := make([]chan error, len(ms))
		for i, m := range ms {
			written[i] = make(chan error, 1)
			go func() {
				_, err := c.Write(t.Context(), m)
				written[i] <- err
			}()
			awaitWaiting(t, g, i+1)
		}
		releaseGroups(t.Context(), g)
		for i := range ms {
			switch err := <-written[i]; {
			case i == at && !Forbidden(err):
				t.Errorf("message %d: got %v, want a violation", i, err)
			case i != at && err != nil:
				t.Errorf("message %d: got %v beside the forbidden message %d, want no error", i, err, at)
			}
		}
		groupedIn(t, c, slices.Delete(ms, at, at+1), nil)
	}
}

// holdGroups makes the writes of a stream wait, as if a group were under way.
func holdGroups(c *Conn, subject string) *groupCommit {
	g := c.streams.Load().commitOf(subject)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.storing, g.sendAfter = time.Now(), time.Hour
	return g
}

// awaitWaiting waits until n writes wait.
func awaitWaiting(t *testing.T, g *groupCommit, n int) {
	t.Helper()
	waitUntil(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == n
	})
}

// releaseGroups ends the group that is as if under way.
func releaseGroups(ctx context.Context, g *groupCommit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.storing = time.Time{}
	g.next(ctx)
}

// TestWriteBesideASilentGroup: a group gets no answer. Other writes wait for it
// for a while, and then go on.
func TestWriteBesideASilentGroup(t *testing.T) {
	c := groupedT(t, SyncAlways)
	ms := callsT(t, c, "T", 3)
	g := holdGroups(c, ms[0].Subject)
	g.sendAfter = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
	defer cancel()
	_, errs := writeAtOnce(ctx, c, ms)
	noErrorT(t, ms, errs)
	if ctx.Err() != nil {
		t.Errorf("the writes took longer than %v", answerTimeout)
	}
}

// TestWriteAmongFewSilentOnes: as many writes as may go alone get no answer.
// Another one waits for them for a while, and is then sent alone.
func TestWriteAmongFewSilentOnes(t *testing.T) {
	c := groupedT(t, SyncAlways)
	m := callsT(t, c, "T", 1)[0]
	g := c.streams.Load().commitOf(m.Subject)
	g.alone, g.sendAfter = c.cfg.GroupFrom, 10*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
	defer cancel()
	if _, err := c.Write(ctx, m); err != nil {
		t.Fatal(err)
	}
	if g.alone != c.cfg.GroupFrom {
		t.Errorf("%d writes are under way alone, want %d", g.alone, c.cfg.GroupFrom)
	}
}

// TestGroupsOfKnownStreams: a connection that asks for the streams again, as
// each submission does, goes on with the groups that it has.
func TestGroupsOfKnownStreams(t *testing.T) {
	c := groupedT(t, SyncAlways)
	before := c.streams.Load()
	if err := c.Provisioned(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := c.streams.Load()
	if after.submits != before.submits || after.commits[0] != before.commits[0] {
		t.Error("the connection has begun with new groups")
	}
}

// TestNoGroupAfterAReconnect: a group waits while the connection is made again.
// It is not sent before the streams are known to be the same.
func TestNoGroupAfterAReconnect(t *testing.T) {
	c := groupedT(t, SyncAlways)
	guardT(t, c)
	ms := callsT(t, c, "T", 2)
	group := groupOfT(t, c, ms)
	reconnectT(t, c)
	g := c.streams.Load().commitOf(ms[0].Subject)
	g.storeGroup(t.Context(), group, time.Now())
	for i, w := range group {
		if turn := <-w.turn; turn.alone || !errors.Is(turn.err, errUnconfirmed) {
			t.Errorf("write %d gets %+v, want %v", i, turn, errUnconfirmed)
		}
	}
	if _, err := g.store(t.Context(), group[0].msg); !errors.Is(err, errUnconfirmed) {
		t.Errorf("a write alone: %v, want %v", err, errUnconfirmed)
	}
	noErrorT(t, ms, c.WriteAll(t.Context(), ms))
}

// TestGroupsOfASlowDisk: a server answers late because its disk is slow. Writes
// wait for each other, though its clock cannot be read well. They do not on a
// server that is far away.
func TestGroupsOfASlowDisk(t *testing.T) {
	c := groupedT(t, SyncAlways)
	g := c.streams.Load().commitOf(callsT(t, c, "T", 1)[0].Subject)
	clock := c.streams.Load().clocks[0]
	clock.mu.Lock()
	clock.reading = reading{at: time.Now(), server: time.Now(), bound: time.Second}
	clock.mu.Unlock()
	for rtt, want := range map[time.Duration]bool{time.Millisecond: true, farServer: false} {
		g.rtt = rtt
		if got := g.pays(); got != want {
			t.Errorf("round trip of %v: groups pay %t, want %t", rtt, got, want)
		}
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
