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

// upper is a provider with a model that answers with its task in capitals.
type upper struct{}

func (upper) Send(_ context.Context, req *provider.Request) (*provider.Response, error) {
	task := req.Messages[len(req.Messages)-1].Content
	return &provider.Response{Content: strings.ToUpper(task)}, nil
}

// A worker serves one agent on an embedded NATS server, and a client submits a
// task to the agent.
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
		// Open returns the model's provider and the model's name there.
		Open: func(model string) (provider.Provider, string, error) { return upper{}, model, nil },
	})
	if err != nil {
		return err
	}
	agent, err := subjects.ParseAgent("shout")
	if err != nil {
		return err
	}
	if err := w.Serve(
		configs.Definitions{Agents: []configs.Agent{{Name: agent.String(), Model: "example/upper"}}},
	); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()

	c := client.New(conn)
	tree, err := c.Submit(ctx, client.Task{Agent: agent, Text: "hello, worker"})
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
