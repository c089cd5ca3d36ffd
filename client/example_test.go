package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider/catalog"
	"github.com/axebus/axe/subjects"
)

// exampleAgents are the agents of the examples. The agent watcher supervises
// guarded.
var exampleAgents = []configs.Agent{
	{Name: "echo", Model: "script/echo"},
	{Name: "slow", Model: "script/slow"},
	{Name: "watcher", Model: "script/watcher"},
	{
		Name: "guarded", Model: "script/guarded", SubAgents: []string{"echo"},
		Supervision: configs.Supervision{Mode: configs.SupervisedHuman, Agent: "watcher"},
	},
}

// withWorker calls fn with a connection to a server in this process, while a
// worker serves the agents of the examples. It prints an error.
func withWorker(fn func(ctx context.Context, conn *bus.Conn) error) {
	if err := tryWithWorker(fn); err != nil {
		fmt.Println(err)
	}
}

// tryWithWorker does the work of withWorker and returns the error of fn, of the
// server or of the worker.
func tryWithWorker(fn func(ctx context.Context, conn *bus.Conn) error) error {
	dir, err := os.MkdirTemp("", "client-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, script := range map[string]string{
		"echo":    "[[turn]]\ntext = 'You said: {{.Task}}'\n",
		"slow":    scripts["slow"],
		"watcher": scripts["watcher"],
		"guarded": scripts["guarded"],
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(script), 0o600); err != nil {
			return err
		}
	}
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
	w, err := agentd.New(conn, agentd.Config{Open: catalog.New(catalog.Config{ScriptDir: dir}).Open})
	if err != nil {
		return err
	}
	if err := w.Serve(configs.Definitions{Agents: exampleAgents}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	err = fn(ctx, conn)
	stop()
	return errors.Join(err, <-ended)
}

// Submit a task and wait for its outcome.
func Example() {
	withWorker(func(ctx context.Context, conn *bus.Conn) error {
		c := client.New(conn)
		agent, err := subjects.ParseAgent("echo")
		if err != nil {
			return err
		}
		tree, err := c.Submit(ctx, client.Task{Agent: agent, Text: "hello"})
		if err != nil {
			return err
		}
		outcome, err := c.Wait(ctx, tree)
		fmt.Println(outcome.Status, outcome.Result)
		return err
	})
	// Output:
	// completed You said: hello
}

// A submission with an id can be repeated: the first one counts.
func ExampleTreeID() {
	withWorker(func(ctx context.Context, conn *bus.Conn) error {
		c := client.New(conn)
		agent, err := subjects.ParseAgent("echo")
		if err != nil {
			return err
		}
		id := client.TreeID("order 4711")
		for range 2 {
			tree, err := c.Submit(ctx, client.Task{Agent: agent, Text: "hello", ID: id})
			if err != nil {
				return err
			}
			outcome, err := c.Wait(ctx, tree)
			if err != nil {
				return err
			}
			fmt.Println(tree == id, outcome.Result)
		}
		return nil
	})
	// Output:
	// true You said: hello
	// true You said: hello
}

// Follow every event of a tree until the tree has ended.
func ExampleClient_Follow() {
	withWorker(func(ctx context.Context, conn *bus.Conn) error {
		c := client.New(conn)
		agent, err := subjects.ParseAgent("echo")
		if err != nil {
			return err
		}
		tree, err := c.Submit(ctx, client.Task{Agent: agent, Text: "hello"})
		if err != nil {
			return err
		}
		return c.Follow(ctx, tree, func(e client.Event) {
			if !e.Live() {
				fmt.Println(e.Run.Path, e.Run.Agent, e.Kind, e.State.Phase)
			}
		})
	})
	// Output:
	// r echo called ready
	// r echo concluded completed
}

// Cancel a tree. A second cancellation returns ErrEnded.
func ExampleClient_Cancel() {
	withWorker(func(ctx context.Context, conn *bus.Conn) error {
		c := client.New(conn)
		agent, err := subjects.ParseAgent("slow")
		if err != nil {
			return err
		}
		tree, err := c.Submit(ctx, client.Task{Agent: agent, Text: "hello"})
		if err != nil {
			return err
		}
		if err := c.Cancel(ctx, tree, subjects.Root, "too slow"); err != nil {
			return err
		}
		outcome, err := c.Wait(ctx, tree)
		if err != nil {
			return err
		}
		fmt.Println(outcome.Status, outcome.Kind, outcome.Error)
		err = c.Cancel(ctx, tree, subjects.Root, "still too slow")
		fmt.Println(errors.Is(err, client.ErrEnded))
		return nil
	})
	// Output:
	// failed cancelled too slow
	// true
}

// Approve the turn that a supervisor wants a person to decide on.
func ExampleClient_Decide() {
	withWorker(func(ctx context.Context, conn *bus.Conn) error {
		c := client.New(conn)
		agent, err := subjects.ParseAgent("guarded")
		if err != nil {
			return err
		}
		tree, err := c.Submit(ctx, client.Task{Agent: agent, Text: "hello"})
		if err != nil {
			return err
		}
		return c.Follow(ctx, tree, func(e client.Event) {
			if e.Kind == client.Held {
				fmt.Printf("%s calls %s: %s\n", e.Run.Agent, e.Entry.Calls[0].Agent, e.Reason)
				approval := run.Approval{Approve: true, By: "ann"}
				if err := c.Decide(ctx, tree, e.Run.Path, approval); err != nil {
					fmt.Println(err)
				}
			}
			if e.Kind == client.Approved {
				fmt.Println("approved by", e.By)
			}
			if e.Kind == client.TreeEnded {
				fmt.Println(e.Outcome.Result)
			}
		})
	})
	// Output:
	// guarded calls echo: why?
	// approved by ann
	// You said: hello
}
