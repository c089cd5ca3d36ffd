package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// TestProvablyFirst: a delivery is provably first if it is the first one of a
// message that was stored in this epoch, less than half a lease ago.
func TestProvablyFirst(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server := serveT(t, ServerConfig{})
		writer, c := openT(t, Dial{Server: server}, true), openT(t, Dial{Server: server}, false)
		if err := c.Provisioned(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls := 0
		write := func() {
			calls++
			m := Message{Subject: fmt.Sprintf("axe.run.echo.T%d.r.call", calls)}
			if _, err := writer.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		feed := openFeedT(t, c, one)
		next := func() *Delivery {
			d, err := feed.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		write()
		if d := next(); d.ProvablyFirst() {
			t.Error("provably first without an epoch")
		}
		write()
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { _ = c.KeepLeases(ctx) })
		defer keeping.Wait()
		defer stop()
		synctest.Wait()
		if d := next(); d.ProvablyFirst() {
			t.Error("a message from before the epoch is provably first")
		}
		write()
		d := next()
		if !d.ProvablyFirst() {
			t.Error("a message of this epoch is not provably first")
		}
		if err := d.Nak(0); err != nil {
			t.Fatal(err)
		}
		if d := next(); d.Count != 2 || d.ProvablyFirst() {
			t.Errorf("delivery %d, provably first %t; want delivery 2, not provably first", d.Count, d.ProvablyFirst())
		}
		write()
		d = next()
		time.Sleep(c.cfg.AckWait/2 + time.Second)
		if d.ProvablyFirst() {
			t.Error("provably first after half a lease")
		}
	})
}

// TestReconnectEndsEpoch: a server that was away may have forgotten deliveries,
// so no delivery is provably first until the next epoch.
func TestReconnectEndsEpoch(t *testing.T) {
	dir := t.TempDir()
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: dir})
	c := openT(t, Dial{URL: server.URL()}, true)
	c.startEpoch(t.Context())
	feed := openFeedT(t, c, one)
	// provablyFirst writes a call, acknowledges its delivery, and reports
	// whether the delivery was provably first.
	provablyFirst := func(n int) bool {
		if _, err := c.Write(t.Context(), Message{Subject: fmt.Sprintf("axe.run.echo.T%d.r.call", n)}); err != nil {
			t.Fatal(err)
		}
		d, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
		return d.ProvablyFirst()
	}
	if !provablyFirst(1) {
		t.Error("a message of this epoch is not provably first")
	}
	listen := server.URL()[len("nats://"):]
	server.Close()
	serveT(t, ServerConfig{Listen: listen, StoreDir: dir})
	if provablyFirst(2) {
		t.Error("provably first in the epoch before the restart")
	}
	c.startEpoch(t.Context())
	if !provablyFirst(3) {
		t.Error("a message of the next epoch is not provably first")
	}
}
