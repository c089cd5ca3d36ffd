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

// TestUntouched is what is delivered for the first time, was stored not long
// ago, and since the connection was made.
func TestUntouched(t *testing.T) {
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
			if _, err := writer.Write(t.Context(), Message{Subject: fmt.Sprintf("axe.run.echo.T%d.r.call", calls)}); err != nil {
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
			t.Error("there is no mark, and it is untouched")
		}
		write()
		ctx, stop := context.WithCancel(t.Context())
		var beating sync.WaitGroup
		beating.Go(func() { _ = c.KeepLeases(ctx) })
		defer beating.Wait()
		defer stop()
		synctest.Wait()
		if d := next(); d.ProvablyFirst() {
			t.Error("it was stored before the mark")
		}
		write()
		d := next()
		if !d.ProvablyFirst() {
			t.Error("a message that was just stored is not untouched")
		}
		if err := d.Nak(0); err != nil {
			t.Fatal(err)
		}
		if d := next(); d.Count != 2 || d.ProvablyFirst() {
			t.Errorf("delivery %d is untouched", d.Count)
		}
		write()
		d = next()
		time.Sleep(c.cfg.AckWait/2 + time.Second)
		if d.ProvablyFirst() {
			t.Error("a message that was stored half a lease ago is untouched")
		}
	})
}

// TestUntouchedBeforeAReconnect: a server that was away may have forgotten
// deliveries, until there is another mark.
func TestUntouchedBeforeAReconnect(t *testing.T) {
	dir := t.TempDir()
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: dir})
	c := openT(t, Dial{URL: server.URL()}, true)
	c.startEpoch(t.Context())
	feed := openFeedT(t, c, one)
	untouched := func(n int) bool {
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
	if !untouched(1) {
		t.Error("a message that was just stored is not untouched")
	}
	listen := server.URL()[len("nats://"):]
	server.Close()
	serveT(t, ServerConfig{Listen: listen, StoreDir: dir})
	if untouched(2) {
		t.Error("untouched, by a mark from before the server was restarted")
	}
	c.startEpoch(t.Context())
	if !untouched(3) {
		t.Error("a message that was just stored is not untouched after another mark")
	}
}
