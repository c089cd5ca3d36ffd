package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

// TestMaxAge: the worker that creates the streams decides how long they keep
// messages.
func TestMaxAge(t *testing.T) {
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	defer worker.Wait()
	defer stop()
	cmd := command()
	cmd.SetArgs([]string{"--agents", t.TempDir(), "--server", server.URL(), "--max-age", "48h", "--log-level", "off"})
	worker.Go(func() { _ = cmd.ExecuteContext(ctx) })
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := cli.Ready(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if got := conn.MaxAge(); got != 48*time.Hour {
		t.Errorf("the streams keep messages for %s, want 48h", got)
	}
}
