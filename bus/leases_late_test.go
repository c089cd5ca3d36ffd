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
// a lease finds its leases over as soon as it goes on, before the next renewal.
// Its nak of the first delivery does nothing. Otherwise it would give back a
// message that another worker has by now.
func TestStoppedProcessLosesItsLeases(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		const lease = 4 * time.Second
		stopped, call := feedT(t, lease, one)
		successor := openFeedT(t, stopped.conn, one)
		call("T1")
		next := func(f *Feed, count int) *Delivery {
			t.Helper()
			d, err := f.Next(t.Context())
			if err != nil || d.Count != count {
				t.Fatalf("got %+v, %v; want delivery %d", d, err, count)
			}
			return d
		}
		first := next(stopped, 1)
		// No lease is renewed: the process is stopped.
		next(successor, 2)
		if !first.LeaseExpired() {
			t.Error("the lease of the first delivery has not expired after a second delivery")
		}
		if err := first.Nak(0); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next(successor, 3)
		if d := time.Since(began); d < lease {
			t.Errorf("the first holder's nak brought delivery 3 after %v, want at least %v", d, lease)
		}
	})
}

// TestStoppedRoundRenewsNothing: a process was stopped in a round of renewals,
// for longer than a lease. The next round was due in that time. It lets go of
// the delivery, and does not renew its lease.
func TestStoppedRoundRenewsNothing(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		const lease = 4 * time.Second
		feed, call := feedT(t, lease, one)
		rounds := 0
		feed.conn.cfg.Intercept = func(p Point) error {
			if p.Op != "beat" {
				return nil
			}
			if rounds++; rounds == 1 {
				time.Sleep(2 * lease) // stopped
			}
			return context.DeadlineExceeded
		}
		call("T1")
		d, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lost := make(chan struct{})
		defer d.OnLeaseExpired(func() { close(lost) })()
		ctx, stop := context.WithCancel(t.Context())
		var renewing sync.WaitGroup
		renewing.Go(func() { _ = feed.conn.KeepLeases(ctx) })
		<-lost
		stop()
		renewing.Wait()
		if rounds != 1 {
			t.Errorf("the lease was renewed in %d rounds, want 1", rounds)
		}
	})
}

// one lets a feed request one message at a time.
func one() int { return 1 }

// openFeedT opens a feed of all runs, until the test ends. Ahead is that of
// Consumer.Open.
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

// TestLeaseWithoutEcho: a proxy holds the client's messages back. A renewal
// that is sent and does not reach the server renews nothing.
func TestLeaseWithoutEcho(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	c := openT(t, Dial{URL: server.URL()}, true)
	var holding atomic.Bool
	slow := openT(t, Dial{URL: bustest.Proxy(t, server.URL(), func([]byte) error {
		for holding.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})}, false)
	slow.cfg.AckWait = 400 * time.Millisecond
	feed := openFeedT(t, slow, one)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	d, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var renewing sync.WaitGroup
	renewing.Go(func() { _ = slow.KeepLeases(ctx) })
	time.Sleep(2 * slow.cfg.AckWait)
	if d.LeaseExpired() {
		t.Error("the lease has expired, though its renewals reach the server")
	}
	holding.Store(true)
	time.Sleep(2 * slow.cfg.AckWait)
	if !d.LeaseExpired() {
		t.Error("the lease has not expired, though no renewal has reached the server for two leases")
	}
	holding.Store(false)
	stop()
	renewing.Wait()
}
