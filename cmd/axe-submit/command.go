package main

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	name = "axe-submit"

	long = `Submit a task to an agent on the bus, wait for the outcome of the whole tree,
and print the answer on stdout. While the tree works, stderr shows it, if stderr
is a terminal and the answer does not go into a pipe.

The task is the second argument, a file (-f), or the standard input. ^C
detaches: the tree goes on, and "axe-submit wait ID" attaches again. --patience
detaches after a time. With --cancel the tree is cancelled instead. --timeout is
the time limit of the tree itself. --id makes a submission idempotent: the same
key gives the same tree and the same result, however often it is submitted.

The bus is found as the nats CLI finds it: --server, NATS_URL, a context, or
nats://127.0.0.1:4222. "nats pub axe.submit.AGENT.ID TEXT" publishes the same
submission.

If an agent has the name of a subcommand (wait, cancel, help, completion), put
two dashes before it: axe-submit -- wait "the task".

Exit codes: 0 answered, 1 the agent failed, 2 usage, bad name or unknown agent,
3 the model's provider failed or the time or the patience was over, 4 a limit on
the tree, 5 cancelled, 130 detached by ^C.`

	examples = `  axe-submit lead "Review the bus package"
  git diff | axe-submit reviewer "Focus on security"
  axe-submit lead -f task.md --timeout 10m -o json
  axe-submit lead "Quickly" --patience 30s --cancel       # within 30 s or never
  id=$(axe-submit lead "Review the bus package" --detach); axe-submit wait $id
  axe-submit nightly --id "$(date +%F)" "Summarise yesterday"  # one tree a day
  axe-submit cancel $id --reason "wrong branch"`
)

func command() *cobra.Command {
	s := &submission{flags: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: name + " AGENT [TEXT]", Short: "Submit a task to an agent and print the answer",
		Long: long, Example: examples,
		Args: cli.AgentAndText,
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	s.flags.Register(cmd)
	s.flags.RegisterProgress(cmd)
	s.flags.RegisterOutput(cmd, "text: the answer; json: the whole outcome, failed or not")
	s.register(cmd)
	cmd.AddCommand(waitCommand(&s.flags), cli.CancelCommand(&s.flags))
	return cmd
}
