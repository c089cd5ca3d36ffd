package main

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	name = "axe-submit"

	long = `axe-submit hands a task to an agent on the bus, waits for the outcome of its whole tree of
agents, and prints the answer to stdout. The tree is shown on stderr while it works, if that is a terminal
and the answer does not go into a pipe.

The text is the second argument, a file (-f), or what is piped in. ^C detaches: the tree goes on, and
"axe-submit wait ID" attaches again; --patience detaches after a while. With --cancel the tree is cancelled instead.
--timeout is the tree's own time, whoever waits for it. --id makes a submission idempotent: the same key is the same tree
and the same result, however often it is submitted.

The bus is found as the nats CLI finds it: --server, or NATS_URL, or a context, or nats://127.0.0.1:4222.
What this command publishes, "nats pub axe.submit.AGENT.ID TEXT" publishes just as well.

An agent whose name is that of a subcommand (wait, cancel, help, completion) is reached after two
dashes: axe-submit -- wait "the text".

Exit codes: 0 answered, 1 the agent failed, 2 usage, bad name or unknown agent, 3 the model's provider failed
or the time or the patience was over, 4 a limit on the tree, 5 cancelled, 130 left by ^C.`

	examples = `  axe-submit lead "Review the bus package"
  git diff | axe-submit reviewer
  axe-submit lead -f task.md --timeout 10m -o json
  axe-submit lead "Quickly" --patience 30s --cancel                # an answer within 30 s, or none
  id=$(axe-submit lead "Review the bus package" --detach); axe-submit wait $id
  axe-submit nightly --id "$(date +%F)" "Summarise yesterday"      # once a day, whoever runs it
  axe-submit cancel $id --reason "wrong branch"`
)

func command() *cobra.Command {
	s := &submission{flags: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: name + " AGENT [TEXT]", Short: "Hand a task to an agent and print the answer", Long: long, Example: examples,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	s.flags.Register(cmd)
	s.flags.RegisterProgress(cmd)
	s.flags.RegisterOutput(cmd, "text: the answer; json: the whole outcome, failed or not")
	s.register(cmd)
	cmd.AddCommand(waitCommand(&s.flags), cli.CancelCommand(&s.flags))
	return cmd
}
