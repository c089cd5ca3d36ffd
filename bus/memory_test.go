package bus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// openT connects to a server until the test ends. With streams it provisions
// them.
func openT(tb testing.TB, d Dial, streams bool) *Conn {
	tb.Helper()
	c, err := Open(tb.Context(), Config{Dial: d})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	if streams {
		if err := c.Provision(tb.Context(), Provision{}); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// agentT parses the name of an agent.
func agentT(tb testing.TB, name string) subjects.Agent {
	tb.Helper()
	a, err := subjects.ParseAgent(name)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// appendT appends values to the memory of an agent.
func appendT(t *testing.T, b *Memory, agent subjects.Agent, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := b.Append(t.Context(), agent, []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
}

// wantValues checks the whole memory of an agent.
func wantValues(t *testing.T, b *Memory, agent subjects.Agent, want ...string) {
	t.Helper()
	values, err := b.Values(t.Context(), agent)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range values {
		got = append(got, string(v))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", agent, diff)
	}
}

// TestMemory: each agent has its own list, in the order of the writes. One
// request reads it.
func TestMemory(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	b := c.Memory()
	one, other := agentT(t, "one"), agentT(t, "one-more")
	wantValues(t, b, one)
	appendT(t, b, one, "a", "b", "c", "", "d")
	appendT(t, b, other, "x")
	wantValues(t, b, one, "a", "b", "c", "", "d")
	wantValues(t, b, other, "x")

	reads := c.Stats().Reads
	wantValues(t, b, one, "a", "b", "c", "", "d")
	if n := c.Stats().Reads - reads; n != 1 {
		t.Errorf("%d requests for one list, want 1", n)
	}

	s, err := c.js.Stream(t.Context(), "KV_AXE_MEMORY")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxMsgsPerSubject != 1 || cfg.Storage != jetstream.FileStorage || cfg.Replicas != 1 ||
		cfg.Description == "" {
		t.Errorf("stream %+v, want one value a key, in a file, one replica, and a description", cfg)
	}
	if got := b.String(); got != "bucket AXE_MEMORY" {
		t.Errorf("named %q, want bucket AXE_MEMORY", got)
	}
}

// TestMemoryTrims: Trim removes the oldest values of one agent.
func TestMemoryTrims(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	b := c.Memory()
	one, other := agentT(t, "one"), agentT(t, "other")
	trim := func(keep, want int) {
		t.Helper()
		if removed, err := b.Trim(t.Context(), one, keep); err != nil || removed != want {
			t.Errorf("keep %d: removed %d, error %v; want %d", keep, removed, err, want)
		}
	}
	trim(3, 0)
	for i := range 10 {
		appendT(t, b, one, strconv.Itoa(i))
		appendT(t, b, other, strconv.Itoa(i))
	}
	trim(10, 0)
	trim(11, 0)
	trim(3, 7)
	wantValues(t, b, one, "7", "8", "9")
	wantValues(t, b, other, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	appendT(t, b, one, "10")
	trim(3, 1)
	wantValues(t, b, one, "8", "9", "10")

	// A key that a person deletes leaves a marker. A marker is no value and
	// is not counted.
	kv, err := c.js.KeyValue(t.Context(), "AXE_MEMORY")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.ListKeysFiltered(t.Context(), "one.*")
	if err != nil {
		t.Fatal(err)
	}
	for key := range keys.Keys() {
		if e, err := kv.Get(t.Context(), key); err != nil || string(e.Value()) != "9" {
			continue
		}
		if err := kv.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	wantValues(t, b, one, "8", "10")
	trim(1, 1)
	wantValues(t, b, one, "10")
	trim(0, 1)
	wantValues(t, b, one)

	removed, err := b.Trim(t.Context(), other, -1)
	if err != nil || removed != 10 {
		t.Errorf("keep -1: removed %d, error %v; want 10", removed, err)
	}
	appendT(t, b, other, "last")
	s, err := c.js.Stream(t.Context(), "KV_AXE_MEMORY")
	if err != nil {
		t.Fatal(err)
	}
	// Two messages are left: the last value, and the marker of the deleted
	// key. The marker is newer than all values that Trim removed.
	if n := s.CachedInfo().State.Msgs; n > 2 {
		t.Errorf("%d messages are left, want at most 2", n)
	}
}

// TestMemoryReadsSeveralPages: several requests read a list that is larger than
// one answer of the server.
func TestMemoryReadsSeveralPages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	b := c.Memory()
	one := agentT(t, "one")
	for i := range 5 {
		if err := b.Append(t.Context(), one, append(make([]byte, 5<<20), byte(i))); err != nil {
			t.Fatal(err)
		}
	}
	values, err := b.Values(t.Context(), one)
	if err != nil || len(values) != 5 {
		t.Fatalf("%d values, error %v; want 5", len(values), err)
	}
	for i, v := range values {
		if len(v) != 5<<20+1 || v[5<<20] != byte(i) {
			t.Errorf("value %d has %d bytes, want %d with %d at the end", i, len(v), 5<<20+1, i)
		}
	}
	if c.Stats().Reads < 2 {
		t.Errorf("%d requests, want several", c.Stats().Reads)
	}
	if err := b.Append(t.Context(), one, make([]byte, 9<<20)); err == nil {
		t.Error("no error for a value that is larger than the server takes")
	}
}

// TestMemoryIsCreatedOnce: writers that find the bucket missing at the same
// time lose no value.
func TestMemoryIsCreatedOnce(t *testing.T) {
	server := serveT(t, ServerConfig{})
	openT(t, Dial{Server: server}, true)
	one := agentT(t, "one")
	var wg sync.WaitGroup
	for w := range 4 {
		b := openT(t, Dial{Server: server}, false).Memory()
		for g := range 4 {
			wg.Go(func() {
				for i := range 10 {
					if err := b.Append(t.Context(), one, fmt.Appendf(nil, "%d.%d.%d", w, g, i)); err != nil {
						t.Errorf("append: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	values, err := openT(t, Dial{Server: server}, false).Memory().Values(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, v := range values {
		writer, i := string(v[:3]), int(v[4]-'0')
		if seen[writer] != i {
			t.Errorf("writer %s: got value %d, want %d", writer, i, seen[writer])
		}
		seen[writer]++
	}
	if len(values) != 160 || len(seen) != 16 {
		t.Errorf("%d values of %d writers, want 160 of 16", len(values), len(seen))
	}
}

// TestMemoryNeedsTheStreams: without streams no bucket is made.
func TestMemoryNeedsTheStreams(t *testing.T) {
	b := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false).Memory()
	if _, err := b.Values(t.Context(), agentT(t, "one")); !errors.Is(err, ErrNoStream) {
		t.Errorf("read: got %v, want %v", err, ErrNoStream)
	}
	if err := b.Append(t.Context(), agentT(t, "one"), nil); !errors.Is(err, ErrNoStream) {
		t.Errorf("append: got %v, want %v", err, ErrNoStream)
	}
}

// TestMemoryIsCreatedAgain: after an operator has removed the bucket, the next
// write makes it again, and so does the next read.
func TestMemoryIsCreatedAgain(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	b := c.Memory()
	one := agentT(t, "one")
	remove := func() {
		t.Helper()
		if err := c.js.DeleteKeyValue(t.Context(), "AXE_MEMORY"); err != nil {
			t.Fatal(err)
		}
	}
	appendT(t, b, one, "a")
	remove()
	appendT(t, b, one, "b")
	wantValues(t, b, one, "b")
	remove()
	wantValues(t, b, one)
}

// TestMemoryWaitsForTheServer: a request waits for a server that is away, until
// its context ends.
func TestMemoryWaitsForTheServer(t *testing.T) {
	dir := t.TempDir()
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: dir})
	at, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := openT(t, Dial{URL: server.URL()}, true)
	b := c.Memory()
	one := agentT(t, "one")
	appendT(t, b, one, "a")
	server.Close()

	gone := errors.New("patience is over")
	short, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, gone)
	defer cancel()
	if err := b.Append(short, one, []byte("never")); !errors.Is(err, gone) {
		t.Errorf("append: got %v, want the cause of the context", err)
	}
	if _, err := b.Values(short, one); !errors.Is(err, gone) {
		t.Errorf("read: got %v, want the cause of the context", err)
	}
	var wg sync.WaitGroup
	for _, v := range []string{"b", "b"} {
		wg.Go(func() {
			if err := b.Append(t.Context(), one, []byte(v)); err != nil {
				t.Errorf("append that waits for the server: %v", err)
			}
		})
	}
	serveT(t, ServerConfig{Listen: at.Host, StoreDir: dir})
	wg.Wait()
	wantValues(t, b, one, "a", "b", "b")
}

// TestMemoryIsIntercepted: Config.Intercept is called before and after a write.
// Append returns its error. An error before the write prevents the write.
func TestMemoryIsIntercepted(t *testing.T) {
	no := errors.New("no")
	var refuseAfter bool
	c, err := Open(t.Context(), Config{Dial: Dial{Server: serveT(t, ServerConfig{})}, Intercept: func(p Point) error {
		if p.Op == "write" && p.After == refuseAfter {
			return no
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	b := c.Memory()
	one := agentT(t, "one")
	if err := b.Append(t.Context(), one, []byte("a")); !errors.Is(err, no) {
		t.Errorf("an error before the write: got %v, want the error of Intercept", err)
	}
	wantValues(t, b, one)
	refuseAfter = true
	if err := b.Append(t.Context(), one, []byte("a")); !errors.Is(err, no) {
		t.Errorf("an error after the write: got %v, want the error of Intercept", err)
	}
	wantValues(t, b, one, "a")
}

// TestMemoryStoresOnce: a value is stored once, also if an acknowledgement was
// lost. Intercept stores the value before Append does, as a first attempt does
// whose acknowledgement is lost.
func TestMemoryStoresOnce(t *testing.T) {
	var c *Conn
	c, err := Open(t.Context(), Config{Dial: Dial{Server: serveT(t, ServerConfig{})}, Intercept: func(p Point) error {
		if p.Op != "write" || p.After {
			return nil
		}
		_, err := c.js.Publish(t.Context(), p.Subject, []byte("a"))
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	b := c.Memory()
	wantValues(t, b, agentT(t, "one")) // makes the bucket
	appendT(t, b, agentT(t, "one"), "a")
	wantValues(t, b, agentT(t, "one"), "a")
}
