package bus

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// increment returns the number in last plus 1. Without a number it returns 1.
func increment(last []byte) []byte {
	n, _ := strconv.Atoi(string(last))
	return strconv.AppendInt(nil, int64(n+1), 10)
}

// lastT returns the body of a subject's last message.
func lastT(t *testing.T, c *Conn, subject string) string {
	t.Helper()
	ms, err := c.LastPerSubject(t.Context(), subject)
	if err != nil || len(ms) != 1 {
		t.Fatalf("last of %s: %d messages, error %v; want 1", subject, len(ms), err)
	}
	return string(ms[0].Body)
}

// tallyT returns the subject of the tally of the tree T1.
func tallyT(t *testing.T) string {
	t.Helper()
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	return subjects.Space{}.Tally(tree, subjects.Root)
}

// TestUpdateLosesNothing: each update of many concurrent writers counts. An
// update without a change stores nothing.
func TestUpdateLosesNothing(t *testing.T) {
	server, err := Serve(ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := openT(t, Dial{Server: server}, true)
	const writers, each = 16, 10
	var wg sync.WaitGroup
	for range writers {
		other := openT(t, Dial{Server: server}, false)
		wg.Go(func() {
			for range each {
				if err := other.Update(t.Context(), tallyT(t), increment); err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := lastT(t, c, tallyT(t)); got != strconv.Itoa(writers*each) {
		t.Errorf("stored %s, want %d", got, writers*each)
	}
	if err := c.Update(t.Context(), tallyT(t), func([]byte) []byte { return nil }); err != nil {
		t.Errorf("update without a change: %v", err)
	}
	if got := lastT(t, c, tallyT(t)); got != strconv.Itoa(writers*each) {
		t.Errorf("after an update without a change: %s, want %d", got, writers*each)
	}
}

// TestUpdateWithoutAckCountsOnce: the first write of an update is stored and
// not acknowledged, and two other updates follow before its retry. The update
// counts once. The server's window for duplicates is too short to recognize the
// retry.
func TestUpdateWithoutAckCountsOnce(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server, err := Serve(ServerConfig{StoreDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		c, err := Open(t.Context(), Config{Dial: Dial{Server: server}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Provision(t.Context(), Provision{}); err != nil {
			t.Fatal(err)
		}
		configure := func(change func(*jetstream.StreamConfig)) {
			s, err := c.js.Stream(t.Context(), c.streams.Load().names[0])
			if err != nil {
				t.Fatal(err)
			}
			cfg := s.CachedInfo().Config
			change(&cfg)
			if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		configure(func(cfg *jetstream.StreamConfig) { cfg.NoAck, cfg.Duplicates = true, 100*time.Millisecond })
		done := make(chan error, 1)
		go func() { done <- c.Update(t.Context(), tallyT(t), increment) }()
		time.Sleep(time.Second)
		if got := lastT(t, c, tallyT(t)); got != "1" {
			t.Fatalf("stored %s, want 1", got)
		}
		configure(func(cfg *jetstream.StreamConfig) { cfg.NoAck = false })
		for range 2 {
			if err := c.Update(t.Context(), tallyT(t), increment); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := lastT(t, c, tallyT(t)); got != "3" {
			t.Errorf("stored %s after three updates, want 3", got)
		}
	})
}
