package client_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/bustest"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// looking is a client whose every look at the queue, and at a tree's root, is
// told before it happens. End stores the tree's result.
func looking(t *testing.T, tree subjects.Tree, atQueue, atRoot func(n int32, end func())) *client.Client {
	t.Helper()
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	open := func(url string) *bus.Conn {
		conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: url}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	worker := open(server.URL())
	if err := worker.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	end := func() {
		m := bus.Message{
			Subject: worker.Space().Result(echo, tree),
			Body:    []byte(`{"status":"completed","result":"y","agent":"echo"}`),
		}
		if _, err := worker.Write(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	var queue, root atomic.Int32
	return client.New(open(bustest.Proxy(t, server.URL(), func(words []byte) error {
		switch {
		case bytes.Contains(words, []byte("MSG.GET.AXE_SUBMIT")):
			atQueue(queue.Add(1), end)
		case bytes.Contains(words, []byte("multi_last")):
			atRoot(root.Add(1), end)
		}
		return nil
	})))
}

// TestTreeThatMoves: a tree that leaves the queue between the reads of one look
// is found by that look.
func TestTreeThatMoves(t *testing.T) {
	t.Parallel()
	l := client.DeadLetter{ID: 7, Time: time.Now()}
	c := looking(t, l.RetryTree(), func(_ int32, end func()) { end() }, func(int32, func()) {})
	if tried, err := c.Retried(t.Context(), l); !tried || err != nil {
		t.Errorf("tried %t, %v", tried, err)
	}
}

// TestLookThatTakesLong: a first look for a tree that lasts for longer than one
// may be nowhere to be seen, since the server is slow or away, and does not
// find it, is not the last one.
func TestLookThatTakesLong(t *testing.T) {
	t.Parallel()
	tree := client.TreeID("late")
	c := looking(t, tree, func(n int32, _ func()) {
		if n == 1 {
			time.Sleep(2100 * time.Millisecond)
		}
	}, func(n int32, end func()) {
		if n == 3 { // a look reads it twice
			end()
		}
	})
	if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "y" {
		t.Errorf("%+v, %v", o, err)
	}
}
