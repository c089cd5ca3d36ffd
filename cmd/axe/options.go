package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// options are the flags of axe run.
type options struct {
	dial     cli.DialFlags
	log      cli.LogFlags
	progress cli.ProgressFlags
	worker   cli.WorkerFlags
	timeout  time.Duration
	prompt   string
	file     string
	output   string
	json     bool
	cmd      *cobra.Command
}

// elsewhere reports whether a running bus is used.
func (o *options) elsewhere() bool { return o.dial.Explicit() }

// works reports whether this process is a worker.
func (o *options) works() bool { return !o.elsewhere() || o.cmd.Flags().Changed("agents") }

// task is what the command line says is to be done. It is checked before anything is started.
func (o *options) task(ctx context.Context, args []string) (client.Task, error) {
	if o.json {
		o.output = "json"
	}
	if err := cli.CheckOutput(o.output); err != nil {
		return client.Task{}, err
	}
	if !o.elsewhere() {
		if err := o.dial.Unused(); err != nil {
			return client.Task{}, err
		}
	}
	if o.timeout <= 0 {
		return client.Task{}, cli.Usage("--timeout %s: want more than nothing", o.timeout)
	}
	agent, err := subjects.ParseAgent(args[0])
	if err != nil {
		return client.Task{}, err
	}
	arg, err := o.text(args)
	if err != nil {
		return client.Task{}, err
	}
	if o.works() && o.worker.Agents == "" {
		return client.Task{}, cli.Usage("--agents: no default without a home directory")
	}
	if o.works() {
		if err := cli.Defined(o.worker.Agents, agent.String()); err != nil {
			return client.Task{}, err
		}
	}
	text, err := cli.TaskText(ctx, name, arg, o.file, o.dial.MaxBody())
	return client.Task{Agent: agent, Text: text, Timeout: o.timeout}, err
}

// text is the text on the command line, nil if there is none.
func (o *options) text(args []string) (*string, error) {
	prompt := o.cmd.Flags().Changed("prompt")
	switch {
	case prompt && len(args) > 1:
		return nil, cli.Usage("a text and --prompt: want one of them")
	case prompt:
		return &o.prompt, nil
	case len(args) > 1:
		return &args[1], nil
	}
	return nil, nil
}
