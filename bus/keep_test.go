package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// agesT returns the ages of the streams of trees.
func agesT(t *testing.T, c *Conn) (ages []time.Duration) {
	t.Helper()
	for _, name := range treeStreams(c.Space()) {
		s, err := c.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		ages = append(ages, s.CachedInfo().Config.MaxAge)
	}
	return ages
}

// TestKeepChangesStreams: the age of a Provision becomes that of all existing
// streams of trees. Without an age they keep theirs, also one that an operator
// has set. A longer age does not make the messages that the shorter one has
// dropped look lost.
func TestKeepChangesStreams(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	expect := func(p Provision, want time.Duration) {
		t.Helper()
		if err := c.Provision(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for i, got := range agesT(t, c) {
			if got != want {
				t.Errorf("%s keeps messages for %s, want %s", treeStreams(c.Space())[i], got, want)
			}
		}
		if got := c.MaxAge(); got != want {
			t.Errorf("the connection knows an age of %s, want %s", got, want)
		}
	}
	expect(Provision{}, DefaultMaxAge)
	expect(Provision{MaxAge: time.Second, Longest: 800 * time.Millisecond}, time.Second)
	expect(Provision{}, time.Second)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root)
	for range 3 {
		if _, err := c.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
			t.Fatal(err)
		}
	}
	for first := uint64(0); first != 4; {
		bounds, err := c.Bounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first = bounds[0].First
		time.Sleep(10 * time.Millisecond)
	}
	expect(Provision{MaxAge: 48 * time.Hour}, 48*time.Hour)
	if _, err := c.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
		t.Fatal(err)
	}
	losses, err := c.Health.Losses(t.Context(), time.Hour)
	if err != nil || len(losses) > 0 {
		t.Errorf("losses %v, error %v after the age was raised, want none", losses, err)
	}
	for _, name := range treeStreams(c.Space()) {
		editT(t, c, name, func(s *jetstream.StreamConfig) { s.MaxAge = 50 * time.Hour })
	}
	expect(Provision{}, 50*time.Hour)
	for _, p := range []Provision{{MaxAge: 74 * time.Minute, Longest: time.Hour}, {Longest: 41 * time.Hour}} {
		if err := c.Provision(t.Context(), p); err == nil {
			t.Errorf("%+v: no error for an age that is too short, want one", p)
		}
	}
	expect(Provision{Longest: 40 * time.Hour}, 50*time.Hour)
}

// TestNewStreamKeepsForEver: a stream that is made again on a bus that keeps
// messages for ever keeps them for ever too.
func TestNewStreamKeepsForEver(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	names := treeStreams(c.Space())
	for _, name := range names {
		editT(t, c, name, func(s *jetstream.StreamConfig) { s.MaxAge = 0 })
	}
	if err := c.Provisioned(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, again := range map[string]func() error{
		"Provision": func() error { return c.Provision(t.Context(), Provision{}) },
		"Correct":   func() error { return c.Health.Correct(t.Context()) },
	} {
		for _, name := range names[1:] {
			if err := c.js.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if err := again(); err != nil {
			t.Fatal(err)
		}
		for i, got := range agesT(t, c) {
			if got != 0 {
				t.Errorf("%s: %s keeps messages for %s, want for ever", what, names[i], got)
			}
		}
		s, err := c.js.Stream(t.Context(), c.Space().Name("SUBMIT"))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().Config.Duplicates; got != dedupe {
			t.Errorf("%s: a deduplication window of %s, want %s", what, got, dedupe)
		}
	}
}

// TestNewStreamKeepsLongTrees: Provision makes no stream of runs that it would
// refuse later. The default age is too short for trees that may take 6 days. So
// every attempt without an age fails, and one with an age that is long enough
// succeeds.
func TestNewStreamKeepsLongTrees(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
	const longest = 6 * 24 * time.Hour
	for range 2 {
		err := c.Provision(t.Context(), Provision{Longest: longest})
		want := "messages must be kept for at least 180h0m0s, since a tree may take 144h0m0s, got 168h0m0s"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without an age: got %v, want %s", err, want)
		}
		if err := c.Provisioned(t.Context()); !errors.Is(err, ErrNoStream) {
			t.Errorf("after the refusal: got %v, want %v", err, ErrNoStream)
		}
	}
	for _, p := range []Provision{{Longest: longest, MaxAge: AgeFor(longest)}, {Longest: longest}} {
		if err := c.Provision(t.Context(), p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
		for i, got := range agesT(t, c) {
			if got != AgeFor(longest) {
				t.Errorf("%s keeps messages for %s, want %s", treeStreams(c.Space())[i], got, AgeFor(longest))
			}
		}
	}
}

// TestKeepSparesRunningTrees: an age is refused that is shorter than five
// quarters of what a running tree may take.
func TestKeepSparesRunningTrees(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root)
	deadline := time.Now().Add(2 * time.Hour)
	for _, m := range []Message{
		{Subject: r.Call()},
		{Subject: r.Timer(0), Timer: Timer{At: deadline, Target: r.Fired(0)}},
	} {
		if _, err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Provision(t.Context(), Provision{MaxAge: 149 * time.Minute})
	if want := "the tree T1 may take 1h59m59s"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a minute less than five quarters: got %v, want an error with %q", err, want)
	}
	if got := c.MaxAge(); got != DefaultMaxAge {
		t.Errorf("after the refusal messages are kept for %s, want %s", got, DefaultMaxAge)
	}
	if err := c.Provision(t.Context(), Provision{MaxAge: 150 * time.Minute}); err != nil {
		t.Errorf("five quarters: got %v, want no error", err)
	}
}

// TestRefusedKeepChangesNothing: an age that is too short for a tree of the
// last partition changes no stream.
func TestRefusedKeepChangesNothing(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
	if err := c.Provision(t.Context(), Provision{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	tree := treeT(t, "T1")
	for i := 2; c.Space().PartitionOf(tree) != 1; i++ {
		tree = treeT(t, fmt.Sprintf("T%d", i))
	}
	r := c.Space().Run(agentT(t, "a"), tree, subjects.Root)
	for _, m := range []Message{
		{Subject: r.Call()},
		{Subject: r.Timer(0), Timer: Timer{At: time.Now().Add(2 * time.Hour), Target: r.Fired(0)}},
	} {
		if _, err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Provision(t.Context(), Provision{MaxAge: time.Hour}); err == nil {
		t.Error("an age of an hour, and a tree of two: no error, want one")
	}
	for i, got := range agesT(t, c) {
		if got != DefaultMaxAge {
			t.Errorf("%s keeps messages for %s, want %s", treeStreams(c.Space())[i], got, DefaultMaxAge)
		}
	}
}

// undone is JetStream with another process: it writes the configuration back
// that it has read before the first change of a stream.
type undone struct {
	jetstream.JetStream
	once sync.Once
}

func (u *undone) UpdateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	was, err := u.Stream(ctx, cfg.Name)
	if err != nil {
		return nil, err
	}
	s, err := u.JetStream.UpdateStream(ctx, cfg)
	u.once.Do(func() { _, err = u.JetStream.UpdateStream(ctx, was.CachedInfo().Config) })
	return s, err
}

// TestChangesAreNotUndone: a change of a stream is repeated if another process
// has written an older configuration back.
func TestChangesAreNotUndone(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	js, stream := c.js, c.Space().Stream(0).Name
	for _, change := range []func() error{
		func() error { return noteForgotten(t.Context(), c, stream, 7) },
		func() error { return retain(t.Context(), c, Provision{MaxAge: 2 * DefaultMaxAge, Partitions: 1}) },
	} {
		c.js = &undone{JetStream: js}
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := forgotten(s.CachedInfo()); got != 7 {
		t.Errorf("forgotten up to %d, want 7", got)
	}
	if got := agesT(t, c)[0]; got != 2*DefaultMaxAge {
		t.Errorf("messages are kept for %s, want %s", got, 2*DefaultMaxAge)
	}
}

// TestRoom: no new tree begins at the size of a Provision, and runs can still
// be written. A later Provision changes the size, and one without a size leaves
// it. The size holds for a worker and for a client that has just connected.
func TestRoom(t *testing.T) {
	t.Parallel()
	for _, existing := range []bool{false, true} {
		server := serveT(t, ServerConfig{})
		c, other := openT(t, Dial{Server: server}, existing), openT(t, Dial{Server: server}, false)
		provision := func(bytes int64) {
			t.Helper()
			if err := c.Provision(t.Context(), Provision{MaxBytes: bytes, Partitions: 1}); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(full bool) {
			t.Helper()
			if err := c.Clocks.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Health.Room(t.Context()); errors.Is(err, ErrNoRoom) != full || !full && err != nil {
				t.Errorf("got %v, want full %t", err, full)
			}
			faults := c.Health.Faults(time.Hour)
			if got := len(faults) == 1 && faults[0].Kind == FaultFull; got != full {
				t.Errorf("faults %v, want full %t", faults, full)
			}
		}
		provision(4 << 10)
		expect(false)
		r := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root)
		for range 2 {
			if _, err := c.Write(t.Context(), Message{Subject: r.Call(), Body: make([]byte, 3<<10)}); err != nil {
				t.Fatal(err)
			}
		}
		expect(true)
		provision(0)
		expect(true)
		if err := other.Provisioned(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := other.Health.Room(t.Context()); !errors.Is(err, ErrNoRoom) {
			t.Errorf("another connection: got %v, want %v", err, ErrNoRoom)
		}
		if _, err := c.Write(t.Context(), Message{Subject: r.Log()}); err != nil {
			t.Errorf("a write of a running tree: %v", err)
		}
		provision(1 << 20)
		expect(false)
		provision(-1)
		expect(false)
		if got := c.Health.maxBytes(); got != 0 {
			t.Errorf("a size of %d after it was removed, want 0", got)
		}
	}
}
