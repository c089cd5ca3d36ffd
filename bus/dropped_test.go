package bus

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestLosses: Losses reports each limit by which a stream drops messages that
// workers need, with the command that corrects it. It also reports messages
// that the stream has lost before their age.
func TestLosses(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	s, err := c.js.Stream(t.Context(), "AXE_RUNS")
	if err != nil {
		t.Fatal(err)
	}
	was := s.CachedInfo().Config
	expect := func(want ...string) {
		t.Helper()
		all, err := c.Health.Losses(t.Context(), time.Hour)
		if err != nil || len(all) != len(want) {
			t.Fatalf("losses %v, %v; want %q", all, err, want)
		}
		for i, l := range all {
			if !strings.Contains(l.String(), want[i]) {
				t.Errorf("loss %q, want one with %q", l, want[i])
			}
		}
	}
	expect()
	for _, test := range []struct {
		change func(*jetstream.StreamConfig)
		want   []string
	}{
		{func(c *jetstream.StreamConfig) { c.MaxMsgs = 500 }, []string{
			"stream AXE_RUNS drops messages that workers need beyond max-msgs=500; " +
				"to correct it: nats stream edit AXE_RUNS --max-msgs=-1",
		}},
		{func(c *jetstream.StreamConfig) { c.MaxBytes, c.MaxMsgsPerSubject = 1<<20, 1 }, []string{
			"beyond max-bytes=1048576", "beyond max-msgs-per-subject=1",
		}},
		{func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = time.Minute, 30*time.Second }, []string{
			"after max-age=1m0s, and trees that may take 1h0m0s need 1h15m0s; to correct it: " +
				"nats stream edit AXE_RUNS --max-age=168h0m0s",
		}},
	} {
		changed := was
		test.change(&changed)
		if _, err := c.js.UpdateStream(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		expect(test.want...)
	}
	if _, err := c.js.UpdateStream(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	// The stream of submissions may not drop messages either.
	editT(t, c, "AXE_SUBMIT", func(s *jetstream.StreamConfig) { s.MaxMsgs = 500 })
	expect("stream AXE_SUBMIT drops messages that workers need beyond max-msgs=500; ")
	editT(t, c, "AXE_SUBMIT", func(s *jetstream.StreamConfig) { s.MaxMsgs = -1 })
	if all := drops(jetstream.StreamConfig{MaxMsgs: 500, Discard: jetstream.DiscardNew}, 0); len(all) > 0 {
		t.Errorf("a stream that refuses new messages drops old ones: %v", all)
	}
	for range 3 {
		if _, err := c.Write(t.Context(), Message{Subject: tallyT(t)}); err != nil {
			t.Fatal(err)
		}
	}
	expect()
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("stream AXE_RUNS has lost messages before their age: number 3 and those before it are not there " +
		"(so it looks too where max-age was raised)")
	// The messages of an older stream count as lost too, since its last
	// message was young.
	info, err := c.Health.info(t.Context(), "AXE_RUNS")
	if err != nil {
		t.Fatal(err)
	}
	info.Created = info.Created.Add(-2 * DefaultMaxAge)
	if n := removed(info); n != 3 {
		t.Errorf("messages up to %d were removed, want 3", n)
	}
}

// TestRemoved: messages count as removed before their age only where that is
// certain.
func TestRemoved(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	const age = 24 * time.Hour
	for _, test := range []struct {
		name    string
		created time.Duration // before now
		age     time.Duration
		state   jetstream.StreamState
		want    uint64
	}{
		{"new", time.Hour, age, jetstream.StreamState{}, 0},
		{"whole", time.Hour, age, jetstream.StreamState{Msgs: 9, FirstSeq: 1, LastSeq: 9}, 0},
		{"younger than the age", time.Hour, age, jetstream.StreamState{Msgs: 5, FirstSeq: 5, LastSeq: 9}, 4},
		{"older than the age", 2 * age, age, jetstream.StreamState{Msgs: 5, FirstSeq: 5, LastSeq: 9}, 0},
		{"kept for ever", 2 * age, 0, jetstream.StreamState{Msgs: 5, FirstSeq: 5, LastSeq: 9}, 4},
		{
			"empty after a message of an hour ago", 2 * age, age,
			jetstream.StreamState{FirstSeq: 10, LastSeq: 9, LastTime: now.Add(-time.Hour)},
			9,
		},
		{
			"empty after a message of long ago", 2 * age, age,
			jetstream.StreamState{FirstSeq: 10, LastSeq: 9, LastTime: now.Add(-age - time.Hour)},
			0,
		},
	} {
		info := &jetstream.StreamInfo{
			Config: jetstream.StreamConfig{MaxAge: test.age}, State: test.state,
			Created: now.Add(-test.created), TimeStamp: now,
		}
		if got := removed(info); got != test.want {
			t.Errorf("%s: removed up to %d, want %d", test.name, got, test.want)
		}
	}
}
