package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider/catalog"
	"github.com/axebus/axe/subjects"
)

// hall opens a bus that only this process reaches, with a worker for an agent
// named echo.
func hall(ctx context.Context) (_ *bus.Conn, leave func(), err error) {
	dir, err := os.MkdirTemp("", "client-example-")
	if err != nil {
		return nil, nil, err
	}
	script := []byte("[[turn]]\ntext = 'You said: {{.Task}}'\n")
	if err := os.WriteFile(filepath.Join(dir, "echo.toml"), script, 0o600); err != nil {
		return nil, nil, err
	}
	server, err := bus.Serve(bus.ServerConfig{StoreDir: dir})
	if err != nil {
		return nil, nil, err
	}
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		return nil, nil, err
	}
	if err := conn.Provision(ctx, bus.Provision{}); err != nil {
		return nil, nil, err
	}
	w, err := agentd.New(conn, agentd.Config{Open: catalog.New(catalog.Config{ScriptDir: dir}).Open})
	if err != nil {
		return nil, nil, err
	}
	if err := w.Serve([]configs.Agent{{Name: "echo", Model: "script/echo"}}); err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return conn, func() {
		stop()
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
		conn.Close()
		server.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func Example() {
	ctx := context.Background()
	conn, leave, err := hall(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leave()
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.New(conn)
	tree, err := c.Submit(ctx, client.Task{Agent: echo, Text: "hello", ID: client.TreeID("greeting")})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := c.Wait(ctx, tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(outcome.Status, outcome.Result)

	// Whoever knows the key has the answer too; what it would submit
	// changes nothing.
	again, err := c.Submit(ctx, client.Task{Agent: echo, Text: "something else", ID: client.TreeID("greeting")})
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err = c.Wait(ctx, again)
	fmt.Println(again == tree, outcome.Result, err)

	fmt.Println(errors.Is(c.Cancel(ctx, tree, subjects.Root, "too late"), client.ErrEnded))
	// Output:
	// completed You said: hello
	// true You said: hello <nil>
	// true
}

func ExampleClient_Follow() {
	ctx := context.Background()
	conn, leave, err := hall(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leave()
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.New(conn)
	tree, err := c.Submit(ctx, client.Task{Agent: echo, Text: "hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Follow(ctx, tree, func(e client.Event) {
		// told live only, and not of a model this quick
		if e.Kind != client.Asking {
			fmt.Println(e.Run.Path, e.Run.Agent, e.Kind)
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Output:
	// r echo called
	// r echo concluded
}
