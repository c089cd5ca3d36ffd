package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// A worker appends to the log of a run. The fence of each write is the last
// message of the log that the worker has read. A second worker that has read
// less is refused, and reads again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "axe-")
	check(err)
	defer os.RemoveAll(dir)
	server, err := bus.Serve(bus.ServerConfig{StoreDir: dir})
	check(err)
	defer server.Close()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: server}})
	check(err)
	defer conn.Close()
	check(conn.Provision(ctx, bus.Provision{}))

	agent, err := subjects.ParseAgent("reviewer")
	check(err)
	tree, err := subjects.ParseTree("T1")
	check(err)
	log := conn.Space().Run(agent, tree, subjects.Root).Log()

	seq, err := conn.Write(ctx, bus.Message{Subject: log, Body: []byte("turn 1"), Fence: bus.After(log, 0)})
	check(err)
	_, err = conn.Write(ctx, bus.Message{Subject: log, Body: []byte("turn 2"), Fence: bus.After(log, seq)})
	check(err)

	_, err = conn.Write(ctx, bus.Message{Subject: log, Body: []byte("another turn 2"), Fence: bus.After(log, seq)})
	if conflict, ok := errors.AsType[*bus.ConflictError](err); ok {
		ms, err := conn.ScanUntil(ctx, log, seq, conflict.Last)
		check(err)
		for _, m := range ms {
			fmt.Printf("refused by message %d: %s\n", m.Seq, m.Body)
		}
	}
	// Output:
	// refused by message 2: turn 2
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
