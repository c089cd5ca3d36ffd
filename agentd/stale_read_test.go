package agentd_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// TestStaleReadIsRepeated: a worker reads a run in several requests. After the
// request that looks for the outcome its server is away for a time, and another
// worker ends the run. The model is not asked.
func TestStaleReadIsRepeated(t *testing.T) {
	t.Parallel()
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	ctx := t.Context()
	open := func(url string) *bus.Conn {
		c, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: url}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	other := newHarness(ctx, t, open(server.URL()))
	if err := other.conn.Provision(ctx, bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent("a0")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := subjects.ParseTree("old")
	if err != nil {
		t.Fatal(err)
	}
	space := other.conn.Space()
	r := space.Run(agent, tree, subjects.Root)
	write := func(m bus.Message) {
		if _, err := other.conn.Write(ctx, m); err != nil {
			t.Error(err)
		}
	}
	concluded := make(chan struct{})
	var once sync.Once
	conclude := func() {
		write(bus.Message{
			Subject: space.Result(agent, tree),
			Body:    []byte(`{"status":"completed","agent":"a0","tree":"old","path":"r"}`),
		})
		// A connection takes that long to come back.
		time.Sleep(time.Second)
		close(concluded)
	}
	conn := open(bustest.Proxy(t, server.URL(), func(words []byte) error {
		if bytes.Contains(words, []byte("subjects_filter")) {
			once.Do(conclude)
		}
		return nil
	}))
	head := subjects.Header{
		Tree:     tree,
		Path:     subjects.Root,
		MaxDepth: 3,
		Deadline: time.Now().Add(time.Hour),
		Reply:    space.Result(agent, tree),
	}
	// The call is not provably first, so the worker reads the whole run.
	write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"L"}`)})
	other.agents = levels(1)
	w := other.startWorker("w", workerOptions{conn: conn})
	<-concluded
	// By then the worker has asked, or never will.
	time.Sleep(time.Second)
	w.drain()
	if n := other.tree.turnsAsked(); n > 0 {
		t.Errorf("the model was asked for %d turns", n)
	}
}
