package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// TestStoppedProcessLosesItsLeases: a process that was stopped for longer than
// a lease finds its leases over as soon as it goes on. It must not wait for the
// next beat: before that it may handle a delivery, or give back one that
// another worker has by now.
func TestStoppedProcessLosesItsLeases(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		const lease = 4 * time.Second
		zombie, call := feedT(t, lease, one)
		successor := openFeedT(t, zombie.conn, one)
		call("T1")
		next := func(f *Feed, count int) *Delivery {
			t.Helper()
			d, err := f.Next(t.Context())
			if err != nil || d.Count != count {
				t.Fatalf("%+v, %v", d, err)
			}
			return d
		}
		first := next(zombie, 1)
		// No lease is renewed: the process is stopped.
		next(successor, 2)
		if !first.LeaseExpired() {
			t.Error("another worker has the message, and its first holder does not count as late")
		}
		if err := first.Nak(0); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next(successor, 3)
		if d := time.Since(began); d < lease {
			t.Errorf("the late nak has taken it from its second holder after %v", d)
		}
	})
}

// one lets a feed request one message at a time.
func one() int { return 1 }

// openFeedT opens a feed of all runs.
func openFeedT(t *testing.T, c *Conn, ahead func() int) *Feed {
	t.Helper()
	consumer, err := c.Consumer(
		t.Context(),
		ConsumerConfig{Stream: "RUNS", Name: "test", Filters: []string{subjects.Space{}.Runs()}},
	)
	if err != nil {
		t.Fatal(err)
	}
	f, err := consumer.Open(ahead)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestLeaseWithoutEcho: a renewal that is sent and does not reach the server
// renews nothing.
func TestLeaseWithoutEcho(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	c := openT(t, Dial{URL: server.URL()}, true)
	var holding atomic.Bool
	held := openT(t, Dial{URL: bustest.Proxy(t, server.URL(), func([]byte) error {
		for holding.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})}, false)
	held.cfg.AckWait = 400 * time.Millisecond
	feed := openFeedT(t, held, one)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	d, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() { _ = held.KeepLeases(ctx) })
	time.Sleep(2 * held.cfg.AckWait)
	if d.LeaseExpired() {
		t.Error("late, though its beats are heard")
	}
	holding.Store(true)
	time.Sleep(2 * held.cfg.AckWait)
	if !d.LeaseExpired() {
		t.Error("not late, though the server has heard nothing for two leases")
	}
	holding.Store(false)
	stop()
	beating.Wait()
}
