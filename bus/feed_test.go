package bus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/subjects"
)

// feedT is a feed of all runs on a server of its own, with a lease, and what
// calls one.
func feedT(t *testing.T, lease time.Duration, ahead func() int) (f *Feed, call func(tree string)) {
	t.Helper()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	c.cfg.AckWait = lease
	return openFeedT(t, c, ahead), func(id string) {
		t.Helper()
		tree, err := subjects.ParseTree(id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(t.Context(), Message{Subject: subjects.Space{}.Run(agentT(t, "a"), tree, subjects.Root).Call()}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequestsThatEnd: of two requests that stand at once the older one ends,
// and the other one brings all its messages. Nothing is on its way then, and
// more is asked for at once.
func TestRequestsThatEnd(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		ahead := 4
		f, call := feedT(t, DefaultAckWait, func() int { return ahead })
		c := f.conn
		take := func() {
			t.Helper()
			began := time.Now()
			d, err := f.Next(t.Context())
			if err != nil || d == nil {
				t.Fatalf("%v, %v", d, err)
			}
			if took := time.Since(began); took > PullExpiry/2 {
				t.Fatalf("a call came after %v", took)
			}
		}
		time.Sleep(c.AlignedDelay(PullExpiry) + PullExpiry/2)
		call("T1")
		call("T2")
		take()
		take()
		// the second request outlasts the first
		time.Sleep(c.AlignedDelay(PullExpiry) - PullExpiry/200)
		if err := f.ask(ahead); err != nil || f.open != 4 {
			t.Fatalf("%d asked for, %v", f.open, err)
		}
		time.Sleep(PullExpiry/200 + time.Millisecond)
		synctest.Wait()
		call("T3")
		call("T4")
		// the end of the first
		if _, err := f.receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		ahead = 3
		take()
		take()
		call("T5")
		take()
		if f.asked < 3 {
			t.Fatalf("%d requests", f.asked)
		}
	})
}

// TestStaleDelivery: what a process finds that was stopped for longer than a
// lease is not taken. It comes again.
func TestStaleDelivery(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		f, call := feedT(t, 4*time.Second, one)
		if err := f.ask(1); err != nil {
			t.Fatal(err)
		}
		call("T1")
		synctest.Wait()
		// as if the process had been stopped
		f.expires = time.Now().Add(-3 * time.Second)
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
