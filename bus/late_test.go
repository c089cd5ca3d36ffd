package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus/bustest"
)

// TestLateByTheClock: a process that was stopped for longer than a lease finds its leases over when it goes on, and
// not at the next beat: what was at a desk then is handled before, and a nak takes it from whoever has it.
func TestLateByTheClock(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	c.cfg.AckWait = 200 * time.Millisecond
	zombie, heir := openFeedT(t, c), openFeedT(t, c)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	first, err := zombie.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := heir.Next(t.Context()) // nobody beats: the process is stopped
	if err != nil || second.Seq != first.Seq || second.Count != 2 {
		t.Fatalf("%+v, %v", second, err)
	}
	if !first.Late() {
		t.Error("another worker has the message, and its first holder does not count as late")
	}
	if err := first.Nak(0); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	third, err := heir.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); third.Seq == second.Seq && d < c.cfg.AckWait/2 {
		t.Errorf("the late nak has taken it from its second holder: delivery %d after %v", third.Count, d)
	}
}

func openFeedT(t *testing.T, c *Conn) *Feed {
	t.Helper()
	cons, err := c.Consumer(t.Context(), ConsumerConfig{Stream: "RUNS", Name: "agent_echo", Filters: []string{"axe.run.echo.*.*.call"}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := cons.Open(func() int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestLeaseWithoutEcho: signs of life that reach the connection and not the server renew nothing.
func TestLeaseWithoutEcho(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	c := openT(t, Dial{URL: server.URL()}, true)
	var holding atomic.Bool
	held := openT(t, Dial{URL: bustest.Between(t, server.URL(), func([]byte) error {
		for holding.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})}, false)
	held.cfg.AckWait = 400 * time.Millisecond
	feed := openFeedT(t, held)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	d, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() { _ = held.Beat(ctx) })
	time.Sleep(2 * held.cfg.AckWait)
	if d.Late() {
		t.Error("late, though its beats are heard")
	}
	holding.Store(true)
	time.Sleep(2 * held.cfg.AckWait)
	if !d.Late() {
		t.Error("not late, though the server has heard nothing for two leases")
	}
	holding.Store(false)
	stop()
	beating.Wait()
}
