package client_test

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// TestWithoutLiveMessages: a client finds stored messages without their live
// copies, which are delivered at most once. The test turns the copies off over
// a socket, so it takes real time.
func TestWithoutLiveMessages(t *testing.T) {
	t.Parallel()
	url := testbus.Listen(t)
	conn := testbus.Dial(t, url)
	disableRepublish(t, url)

	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(conn)
	tree, err := c.Submit(t.Context(), client.Task{Agent: echo, Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "y" {
			t.Errorf("got %+v, %v; want the result y", o, err)
		}
	})
	var kinds []client.EventKind
	wg.Go(func() {
		if err := c.Follow(t.Context(), tree, func(e client.Event) { kinds = append(kinds, e.Kind) }); err != nil {
			t.Errorf("Follow: got %v, want no error", err)
		}
	})
	time.Sleep(500 * time.Millisecond) // both have read, and wait
	r := conn.Space().Run(echo, tree, subjects.Root)
	for _, m := range []bus.Message{
		{Subject: r.Call(), Body: []byte("{}")},
		{Subject: conn.Space().Result(echo, tree), Body: []byte(`{"status":"completed","result":"y"}`)},
	} {
		if _, err := conn.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if len(kinds) != 2 || kinds[0] != client.Called || kinds[1] != client.TreeEnded {
		t.Errorf("events %v, want called and concluded", kinds)
	}
}

// disableRepublish turns off the live copies of a server's stream of runs.
func disableRepublish(t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "AXE_RUNS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.RePublish = nil
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}
