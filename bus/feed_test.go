package bus

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// feedT opens a feed of all runs on a server of its own, with the given lease.
// Ahead is that of Consumer.Open. The function call stores the call of the root
// of a tree.
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
		r := subjects.Space{}.Run(agentT(t, "a"), tree, subjects.Root)
		if _, err := c.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
			t.Fatal(err)
		}
	}
}

// waitHereT requests a message, has it come, and lets a time pass. The request
// has ended by then.
func waitHereT(t *testing.T, f *Feed, call func(tree string), d time.Duration) {
	t.Helper()
	if err := f.ask(1); err != nil {
		t.Fatal(err)
	}
	call("T1")
	time.Sleep(d)
	if f.Expects() || !f.HasCome() {
		t.Fatal("the request has not ended, or has brought no message")
	}
}

// TestOlderRequestEndsFirst: two pull requests of a feed are open at the server
// at once. The older one ends, and the other one brings all its messages. Then
// the feed expects no more messages, and sends the next request at once.
func TestOlderRequestEndsFirst(t *testing.T) {
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
				t.Fatalf("got %v, %v; want a delivery", d, err)
			}
			if took := time.Since(began); took > PullExpiry/2 {
				t.Fatalf("a call came after %v, want at most %v", took, PullExpiry/2)
			}
		}
		time.Sleep(c.AlignedDelay(PullExpiry) + PullExpiry/2)
		call("T1")
		call("T2")
		take()
		take()
		// The second request outlasts the first.
		time.Sleep(c.AlignedDelay(PullExpiry) - PullExpiry/200)
		if err := f.ask(ahead); err != nil || f.open != 4 {
			t.Fatalf("%d messages requested, %v; want 4", f.open, err)
		}
		time.Sleep(PullExpiry/200 + time.Millisecond)
		synctest.Wait()
		call("T3")
		call("T4")
		// This is the end of the first request.
		if _, err := f.receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		ahead = 3
		take()
		take()
		call("T5")
		take()
		if f.asked < 3 {
			t.Fatalf("%d requests, want at least 3", f.asked)
		}
	})
}

// TestRefusedRequest: two feeds pull from a consumer that allows one request at
// a time. A feed whose request is refused does not ask again at once.
func TestRefusedRequest(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	const stream, name = "AXE_RUNS", "crowded"
	cfg := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, MaxWaiting: 1}
	if _, err := c.js.CreateConsumer(t.Context(), stream, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var feeds [2]*Feed
	var pulling sync.WaitGroup
	for i := range feeds {
		f, err := (&Consumer{conn: c, stream: stream, name: name}).Open(one)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		feeds[i] = f
		pulling.Go(func() { _, _ = f.Next(ctx) })
	}
	pulling.Wait()
	for _, f := range feeds {
		if f.asked > 6 {
			t.Errorf("%d requests in 3 seconds, want at most 6", f.asked)
		}
	}
}

// TestNextReturnsWhatHasCome: a message came, and its request has ended since.
// Next returns the message though it may request none. Without it, a worker
// whose slots are taken would look for the message again and again.
func TestNextReturnsWhatHasCome(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		f, call := feedT(t, DefaultAckWait, func() int { return 0 })
		waitHereT(t, f, call, PullExpiry+PullExpiry/2)
		if d, err := f.Next(t.Context()); err != nil || d == nil {
			t.Errorf("got %v, %v; want the delivery", d, err)
		}
		if d, err := f.Next(t.Context()); err != nil || d != nil {
			t.Errorf("got %v, %v; want no other delivery", d, err)
		}
	})
}

// TestDrainReturnsWhatHasCome: a message came, and its request has ended since.
// A worker that drains gets it and gives it back. Without that, the message
// would wait until its lease is over.
func TestDrainReturnsWhatHasCome(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		f, call := feedT(t, DefaultAckWait, one)
		waitHereT(t, f, call, PullExpiry+PullExpiry/2)
		if d := f.Drain(t.Context()); d == nil {
			t.Error("got nothing, want the delivery")
		}
		if d := f.Drain(t.Context()); d != nil {
			t.Errorf("got %v, want no other delivery", d)
		}
	})
}

// TestDrainDropsStaleDelivery: a message has come, and its feed was not used
// for half a lease. A feed that drains drops it, because another worker may have
// it already.
func TestDrainDropsStaleDelivery(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		f, call := feedT(t, DefaultAckWait, one)
		if d, err := f.Poll(t.Context()); d != nil || err != nil {
			t.Fatalf("got %v, %v; want no delivery", d, err)
		}
		waitHereT(t, f, call, DefaultAckWait/2)
		if d := f.Drain(t.Context()); d != nil {
			t.Errorf("got %v, want the delivery dropped", d)
		}
	})
}

// TestFeedDropsStaleDelivery: a process that was stopped for longer than a
// lease drops the delivery that it finds. The server delivers the message
// again.
func TestFeedDropsStaleDelivery(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		f, call := feedT(t, 4*time.Second, one)
		if err := f.ask(1); err != nil {
			t.Fatal(err)
		}
		call("T1")
		synctest.Wait()
		// As after a stop of the process: the request ended 3 s ago.
		f.expires = time.Now().Add(-3 * time.Second)
		if d, err := f.receive(t.Context()); d != nil || err != nil {
			t.Fatalf("got %v, %v; want the delivery dropped", d, err)
		}
		began := time.Now()
		d, err := f.Next(t.Context())
		if err != nil || d.Count != 2 || time.Since(began) > 5*time.Second {
			t.Fatalf("got %+v, %v after %v; want delivery 2 within 5s", d, err, time.Since(began))
		}
	})
}
