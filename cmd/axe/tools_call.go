package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/check"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

const (
	toolsCallLong = `Call a tool of a toolset, and print its result on stdout. The arguments are a
JSON object, the second argument or the standard input (-). Without them the
tool is called with {}.

The call is made through the bus, as an agent's call is: it is a tool run of a
tree with an id, it has an effect and a key, and it is carried out by a worker
that serves the toolset. With --id a call that was made before is not made
again: the command prints its result. At a terminal the command asks about a
call that waits for a person.

Exit codes: 0 the tool answered, 1 the tool failed, 2 usage or an unknown tool,
3 the time was over, 130 interrupted.`

	toolsCallExamples = `  axe tools call shop/get '{"order":"7"}'
  axe tools call shop/refund '{"order":"7","cents":100}' --id refund7
  jq -n '{order:"7"}' | axe tools call shop/get -`
)

// toolsCall holds the flags of axe tools call.
type toolsCall struct {
	tools

	id      string
	timeout cli.Seconds
	// view asks the person at the terminal, and shows no tree.
	view *cli.View
}

func toolsCallCommand() *cobra.Command {
	t := &toolsCall{timeout: cli.Seconds(120 * time.Second)}
	cmd := &cobra.Command{
		Use: "call TOOLSET/TOOL [JSON]", Short: "Call a tool of a toolset, and print its result",
		Long: toolsCallLong, Example: toolsCallExamples, Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.stdout = cmd.OutOrStdout()
			return t.run(cmd.Context(), args, cmd.InOrStdin())
		},
	}
	t.cmd = cmd
	t.register(cmd)
	t.output.Register(cmd, "text: the result; json: id, path, status, kind, result and error on one line")
	cmd.Flags().StringVar(&t.id, "id", "", "id of the call: the same id is the same call, and is made once")
	cmd.Flags().Var(&t.timeout, "timeout", "time limit of the call: seconds, or a duration like 10m")
	return cmd
}

// toolCall is a call that a person makes. It is the task of the agent that
// makes the call.
type toolCall struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

func (t *toolsCall) run(ctx context.Context, args []string, stdin io.Reader) error {
	set, wanted, ok := configs.OfToolset(args[0])
	agent, err := subjects.ParseAgent(callerPrefix + set)
	if !ok || err != nil {
		return cli.Usage("the tool must be named as TOOLSET/TOOL; axe tools lists them")
	}
	if t.timeout <= 0 {
		return cli.Usage("--timeout must be positive, got %s", &t.timeout)
	}
	arguments, err := argumentsOf(args[1:], stdin, cmp.Or(t.dial.MaxBody(), bus.DefaultMaxBody))
	if err != nil {
		return err
	}
	screen := cli.Stderr()
	if t.view, err = new(cli.ProgressFlags).View(screen, name); err != nil {
		return err
	}
	t.ask(screen, t.view)
	return t.on(ctx, screen, func(ctx context.Context, conn *bus.Conn, log *slog.Logger) error {
		tool, err := t.find(ctx, conn, set, wanted)
		if err != nil {
			return err
		}
		if err := toolset.ReadSchema(tool.Schema).Check(arguments); err != nil {
			return cli.Usage("%s: %v", args[0], err)
		}
		text, err := json.Marshal(toolCall{tool.As, arguments})
		if err != nil {
			return err
		}
		task := client.Task{Agent: agent, Text: string(text), Timeout: time.Duration(t.timeout)}
		if t.id != "" {
			task.ID = client.TreeID(t.id)
		}
		return t.call(ctx, conn, log, task)
	})
}

// argumentsOf returns the arguments of a call, as a JSON object. Limit is the
// largest number of its bytes.
func argumentsOf(args []string, stdin io.Reader, limit int64) (json.RawMessage, error) {
	text := []byte("{}")
	if len(args) > 0 {
		text = []byte(args[0])
	}
	if string(text) == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(stdin, limit+1)); err != nil {
			return nil, err
		}
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: the arguments have more than %d bytes", bus.ErrTooLarge, limit)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, cli.Usage("the arguments must be a JSON object, got %q", cli.Printable(string(text)))
	}
	return text, nil
}

// find returns a tool that a worker has announced.
func (t *toolsCall) find(ctx context.Context, conn *bus.Conn, set, name string) (agentd.OfferedTool, error) {
	card, ok, err := cli.FindCard(ctx, conn, set)
	unknown := func(format string, args ...any) error {
		return cli.Fail(cli.CodeConfig, fmt.Errorf(format, args...))
	}
	switch {
	case err != nil:
		return agentd.OfferedTool{}, err
	case !ok:
		return agentd.OfferedTool{}, unknown(
			"no worker serves a toolset %s; axe tools lists the tools that are there",
			set,
		)
	case card.Toolset == "":
		return agentd.OfferedTool{}, unknown("%s is an agent, and no toolset: use axe run or axe submit", set)
	case card.Problem != "":
		return agentd.OfferedTool{}, unknown("toolset %s: %s", set, card.Problem)
	}
	var names []string
	for _, tool := range card.Tools {
		if tool.Name == name {
			return tool, nil
		}
		names = append(names, tool.Name)
	}
	text := fmt.Sprintf("the toolset %s has no tool %q", set, name)
	if near := configs.Nearest(names, name); near != "" {
		text += fmt.Sprintf("; did you mean %q?", set+"/"+near)
	}
	return agentd.OfferedTool{}, unknown("%s", text)
}

// callerPrefix stands before the name of a toolset in the name of the agent
// that makes people's calls of the toolset's tools. Only axe tools call serves
// such agents.
const callerPrefix = "axe-tools-"

// call makes a call. This process serves the agent that makes it. The agent's
// model is no model: it asks for the tool, and answers with the result.
func (t *toolsCall) call(ctx context.Context, conn *bus.Conn, log *slog.Logger, task client.Task) error {
	w, err := agentd.New(conn, agentd.Config{
		Name:  "tools-call-" + bus.NewID(),
		Open:  func(string) (provider.Provider, string, error) { return caller{}, "call", nil },
		Slots: 1, Log: log, TreeLog: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	name := task.Agent.String()
	agent := configs.Agent{
		Name: name, Model: "axe/call", Description: "Makes the calls of axe tools call",
		Tools: []string{strings.TrimPrefix(name, callerPrefix) + "/*"},
	}
	if err := w.Serve(configs.Definitions{Agents: []configs.Agent{agent}}); err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := w.Run(working); err != nil {
			broken(err)
		}
	})
	defer serving.Wait()
	defer stop()
	defer func() {
		// The agent is withdrawn with the last process that serves it.
		if w.Serve(configs.Definitions{}) == nil {
			leaving, cancel := context.WithTimeout(working, withdrawTimeout)
			defer cancel()
			_ = awaitAgent(leaving, conn, name, false)
		}
	}()
	if err := awaitAgent(ctx, conn, name, true); err != nil {
		return err
	}
	return t.submit(ctx, client.New(conn), task)
}

const (
	// withdrawTimeout bounds the wait until the agent is withdrawn.
	withdrawTimeout = time.Second
	// awaitDelay is the pause between two looks.
	awaitDelay = 20 * time.Millisecond
)

// awaitAgent waits until a worker has announced an agent, or until none has.
func awaitAgent(ctx context.Context, conn *bus.Conn, agent string, announced bool) error {
	known := cli.Elsewhere(ctx, conn, func(error) {})
	for {
		if kind, ok := known(agent); (ok && kind == check.Agent) == announced {
			return nil
		}
		if err := pause.For(ctx, awaitDelay); err != nil {
			return err
		}
	}
}

// submit submits the call, waits for its end, and prints the result.
func (t *toolsCall) submit(ctx context.Context, c *client.Client, task client.Task) error {
	tree, err := cli.Submit(ctx, c, task)
	if err != nil {
		return err
	}
	o, err := t.view.Wait(ctx, c, tree)
	if _, signal := errors.AsType[cli.SignalError](err); signal {
		return fmt.Errorf("%w, %s", err, cli.CancelAbandoned(ctx, c, tree, "interrupted"))
	}
	if err != nil {
		return err
	}
	var answer calledResult
	if o.Status == run.StatusCompleted && json.Unmarshal([]byte(o.Result), &answer) == nil {
		o.Result = answer.Result
		if answer.Failed {
			o = run.Failure(run.KindError, "%s", answer.Result)
		}
	}
	if t.output.JSON() {
		if err := json.NewEncoder(os.Stdout).Encode(map[string]any{
			"id": tree.String(), "path": subjects.Root.Child(1, 0).String(), "status": o.Status, "kind": o.Kind,
			"result": o.Result, "error": o.Error,
		}); err != nil {
			return err
		}
		return cli.Failed(o)
	}
	return cli.Print(t.stdout, t.output, o)
}

// caller takes the place of a model. It asks for the tool call in its task, and
// answers with the call's result.
type caller struct{}

// calledResult is the answer of a caller.
type calledResult struct {
	Result string `json:"result"`
	Failed bool   `json:"failed,omitzero"`
}

// Send answers a request.
func (caller) Send(_ context.Context, req *provider.Request) (*provider.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	if len(last.ToolResults) > 0 {
		r := last.ToolResults[0]
		b, err := json.Marshal(calledResult{r.Content, r.IsError})
		return &provider.Response{Content: string(b)}, err
	}
	var call toolCall
	if err := json.Unmarshal([]byte(last.Content), &call); err != nil {
		return nil, fmt.Errorf("the task is no tool call: %w", err)
	}
	return &provider.Response{
		ToolCalls: []provider.ToolCall{provider.NewToolCall("call", call.Tool, call.Arguments)},
	}, nil
}
