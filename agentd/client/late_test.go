package client_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// holding passes what a client says to a server. The first word that has a certain text in it waits until
// meanwhile has returned.
func holding(t *testing.T, target, text string, meanwhile func()) (url string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the client's connection
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

// TestLookThatTakesLong: a first look for a tree that lasts, since the server is slow or away, and misses it
// as it moves from the queue to its run, is not the last one.
func TestLookThatTakesLong(t *testing.T) {
	t.Parallel()
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
	tree := client.Key("late")
	url := holding(t, server.URL(), "AXE_SUBMIT", func() {
		m := bus.Message{Subject: worker.Space().Result(echo, tree), Body: []byte(`{"status":"completed","result":"y","agent":"echo"}`)}
		if _, err := worker.Write(t.Context(), m); err != nil {
			t.Error(err)
		}
		time.Sleep(2100 * time.Millisecond) // longer than a tree may be nowhere to be seen
	})
	if o, err := client.New(open(url)).Wait(t.Context(), tree); err != nil || o.Result != "y" {
		t.Errorf("%+v, %v", o, err)
	}
}
