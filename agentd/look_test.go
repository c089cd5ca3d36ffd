package agentd_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// holding lies between a worker and its server. The first thing the worker says that has a certain text in it
// waits until meanwhile has returned.
func holding(t *testing.T, target, text string, meanwhile func()) (url string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the worker's connection
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := net.Dial("tcp", strings.TrimPrefix(target, "nats://")) //nolint:noctx // on this machine
		if err != nil {
			return
		}
		defer far.Close()
		go func() { _, _ = io.Copy(near, far) }()
		var once sync.Once
		for buf := make([]byte, 32<<10); ; {
			n, err := near.Read(buf)
			if err != nil {
				return
			}
			if bytes.Contains(buf[:n], []byte(text)) {
				once.Do(meanwhile)
			}
			if _, err := far.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	return "nats://" + l.Addr().String()
}

// TestOldLook: a worker reads a run in several steps. Between the one that looks for the outcome and the last
// one its server is away, and another worker concludes the run. The model is not asked.
func TestOldLook(t *testing.T) {
	t.Parallel()
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	open := func(url string) *bus.Conn {
		c, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: url}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	other := &sim{tb: t, ctx: ctx, conn: open(server.URL()), model: newTreeModel()}
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
	conn := open(holding(t, server.URL(), "subjects_filter", func() {
		write(bus.Message{Subject: space.Result(agent, tree), Body: []byte(`{"status":"completed","agent":"a0","tree":"old","path":"r"}`)})
		time.Sleep(time.Second) // as long as a connection takes to come back
		close(concluded)
	}))
	head := subjects.Header{Tree: tree, Path: subjects.Root, MaxDepth: 3, Deadline: time.Now().Add(time.Hour), Reply: space.Result(agent, tree)}
	write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"L"}`)}) // not known to be the first: all is read
	w, err := agentd.New(conn, agentd.Config{Open: func(string) (provider.Provider, string, error) { return other.model.at("w"), "m", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Serve(levels(1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-concluded
	time.Sleep(time.Second) // it has long asked by then, or never does
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	other.model.mu.Lock()
	defer other.model.mu.Unlock()
	if len(other.model.asked) > 0 {
		t.Errorf("the model was asked: %v", other.model.asked)
	}
}
