package agentd_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// shout is a provider with a model that answers in capitals.
type shout struct{}

func (shout) Send(_ context.Context, req *provider.Request) (*provider.Response, error) {
	task := req.Messages[len(req.Messages)-1].Content
	return &provider.Response{Content: strings.ToUpper(task)}, nil
}

// A worker serves one agent on a server in this process, and a client submits a
// task to it.
func Example() {
	if err := serveOneTask(); err != nil {
		fmt.Println(err)
	}
	// Output: HELLO, WORKER
}

func serveOneTask() error {
	dir, err := os.MkdirTemp("", "agentd-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := bus.Serve(bus.ServerConfig{StoreDir: dir})
	if err != nil {
		return err
	}
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Provision(ctx, bus.Provision{}); err != nil {
		return err
	}

	w, err := agentd.New(conn, agentd.Config{
		Open: func(model string) (provider.Provider, string, error) { return shout{}, model, nil },
	})
	if err != nil {
		return err
	}
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		return err
	}
	if err := w.Serve([]configs.Agent{{Name: echo.String(), Model: "example/shout"}}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()

	c := client.New(conn)
	tree, err := c.Submit(ctx, client.Task{Agent: echo, Text: "hello, worker"})
	if err != nil {
		return err
	}
	outcome, err := c.Wait(ctx, tree)
	if err != nil {
		return err
	}
	fmt.Println(outcome.Result)
	stop() // the worker drains
	return <-ended
}
