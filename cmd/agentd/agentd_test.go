package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// TestKeep: each worker that is started with --keep or --keep-bytes changes the
// streams, and a worker without these flags leaves them.
func TestKeep(t *testing.T) {
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, test := range []struct {
		name string
		args []string
		keep time.Duration
		full bool
	}{
		{"first", nil, bus.DefaultMaxAge, false},
		{"second", []string{"--keep", "2d", "--keep-bytes", "1"}, 48 * time.Hour, true},
		{"third", nil, 48 * time.Hour, true},
		{"fourth", []string{"--keep", "30d", "--keep-bytes", "unlimited"}, 30 * 24 * time.Hour, false},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var worker sync.WaitGroup
		cmd := command()
		cmd.SetArgs(append(test.args, "--agents", t.TempDir(), "--server", server.URL(), "--log-level", "off",
			"--name", test.name))
		worker.Go(func() { _ = cmd.ExecuteContext(ctx) })
		for started := false; !started; {
			_, err := conn.Workers().Ask(ctx, subjects.WorkerOf(test.name))
			started = err == nil
			if err := pause.For(ctx, 10*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Provisioned(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(ctx, bus.Message{Subject: "axe.submit.nobody.T1"}); err != nil {
			t.Fatal(err)
		}
		if got := conn.MaxAge(); got != test.keep {
			t.Errorf("%s worker: the streams keep messages for %s, want %s", test.name, got, test.keep)
		}
		if err := conn.Health.Room(ctx); (err != nil) != test.full {
			t.Errorf("%s worker: room %v, want full %t", test.name, err, test.full)
		}
		stop()
		worker.Wait()
	}
}
