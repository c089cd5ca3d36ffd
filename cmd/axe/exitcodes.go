package main

import "github.com/spf13/cobra"

// exitCodesTopic is a help topic: a command that only has a help page.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "Explain the exit codes",
		Long: `The exit codes of axe:

  0     The agent answered, or --dry-run printed the first request.
  1     The agent failed: a bad model name, an unsupported provider, a request
        that the provider refused as bad, or 50 turns without an answer.
        Commands for a running bus: the bus cannot be reached, or the action is
        not possible (any more), because the run has ended or holds no turn.
  2     Usage and configuration: the command line, an unknown agent, an invalid
        file, a server that refuses the credentials, an unknown tree, run, turn
        or dead letter, an agent that the policy does not permit.
  3     The model's provider: authentication, a missing key, a rate limit,
        overload, a server error, or the time limit.
  4     A limit on the tree: a budget, or the largest depth.
  5     The tree was cancelled.
  130   Interrupted by ^C. Any other signal that ends axe is 128 plus its
        number.

A sub-agent that fails does not change the exit code of its parent. The parent's
model is told of the failure, and the end of the parent decides. axe agents edit
exits with the code of the editor.`,
	}
}
