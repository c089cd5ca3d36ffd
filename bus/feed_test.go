package bus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/subjects"
)

// TestStaleDelivery: what a process finds that was stopped for longer than a lease is not taken. It comes again.
func TestStaleDelivery(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server, err := Serve(ServerConfig{StoreDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		c, err := Open(t.Context(), Config{Dial: Dial{Server: server}, AckWait: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Provision(t.Context(), Provision{}); err != nil {
			t.Fatal(err)
		}
		consumer, err := c.Consumer(t.Context(), ConsumerConfig{Stream: "RUNS", Name: "test", Filters: []string{subjects.Space{}.Runs()}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := consumer.Open(func() int { return 1 })
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.ask(1); err != nil {
			t.Fatal(err)
		}
		tree, err := subjects.ParseTree("T1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(t.Context(), Message{Subject: subjects.Space{}.Run(agentT(t, "a"), tree, subjects.Root).Call()}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.expires = time.Now().Add(-3 * time.Second) // as if the process had been stopped
		if d, err := f.receive(t.Context()); d != nil || err != nil {
			t.Fatalf("took %v, %v", d, err)
		}
		began := time.Now()
		d, err := f.Next(t.Context())
		if err != nil || d.Count != 2 || time.Since(began) > 5*time.Second {
			t.Fatalf("%+v, %v after %v", d, err, time.Since(began))
		}
	})
}
