package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	name = "axe-submit"

	long = `axe-submit hands a task to an agent on the bus, waits for the outcome of its whole tree of
agents, and prints the answer to stdout. The tree is shown on stderr while it works, if that is a terminal
and the answer does not go into a pipe.

The text is the second argument, a file (-f), or what is piped in. ^C detaches: the tree goes on, and
"axe-submit wait ID" attaches again. --id makes a submission idempotent: the same key is the same tree
and the same result, however often it is submitted.

The bus is found as the nats CLI finds it: --server, or NATS_URL, or a context, or nats://127.0.0.1:4222.
What this command publishes, "nats pub axe.submit.AGENT.ID TEXT" publishes just as well.

An agent whose name is that of a subcommand (wait, cancel, help, completion) is reached after two
dashes: axe-submit -- wait "the text".

Exit codes: 0 answered, 1 the agent failed, 2 usage, bad name or unknown agent, 3 the model's provider failed
or the time was over, 4 a limit on the tree, 5 cancelled, 130 detached by ^C.`

	examples = `  axe-submit lead "Review the bus package"
  git diff | axe-submit reviewer
  axe-submit lead -f task.md --timeout 10m -o json
  id=$(axe-submit lead "Review the bus package" --detach); axe-submit wait $id
  axe-submit nightly --id "$(date +%F)" "Summarise yesterday"      # once a day, whoever runs it
  axe-submit cancel $id --reason "wrong branch"`
)

// options are the flags of all subcommands.
type options struct {
	dial     cli.DialFlags
	log      cli.LogFlags
	progress cli.ProgressFlags
	patience time.Duration
	output   string
}

func command() *cobra.Command {
	o := &options{}
	var s submission
	cmd := &cobra.Command{
		Use: name + " AGENT [TEXT]", Short: "Hand a task to an agent and print the answer", Long: long, Example: examples,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), o, args) },
	}
	o.dial.Register(cmd)
	o.log.Register(cmd, "warn")
	o.progress.Register(cmd)
	cmd.PersistentFlags().DurationVar(&o.patience, "connect-timeout", 10*time.Second, "how long to wait for a server that is not there, 0: for ever")
	cmd.PersistentFlags().StringVarP(&o.output, "output", "o", "text", "text: the answer; json: the whole outcome, failed or not")
	s.register(cmd)
	cmd.AddCommand(waitCommand(o), cancelCommand(o))
	return cmd
}

// session is an open connection and how its trees are shown.
type session struct {
	*client.Client
	conn *bus.Conn
	view *cli.View
	log  *slog.Logger
}

// open checks the flags and connects. The caller closes the connection.
func (o *options) open(ctx context.Context) (*session, error) {
	if err := cli.CheckOutput(o.output); err != nil {
		return nil, err
	}
	if o.patience < 0 {
		return nil, cli.Usage("--connect-timeout %s: want 0 or more", o.patience)
	}
	screen := cli.Stderr()
	view, err := o.progress.View(screen, name)
	if err != nil {
		return nil, err
	}
	log, err := o.log.Logger(screen, screen.Terminal())
	if err != nil {
		return nil, err
	}
	cfg, err := o.dial.Config(nil, log)
	if err != nil {
		return nil, err
	}
	conn, err := cli.Open(ctx, cfg, o.patience)
	if err != nil {
		return nil, err
	}
	if err := cli.Ready(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return &session{client.New(conn), conn, view, log}, nil
}
