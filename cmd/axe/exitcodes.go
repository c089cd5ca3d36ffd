package main

import "github.com/spf13/cobra"

// exitCodesTopic is a help topic: a command without work of its own.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean",
		Long: `What the exit codes of axe mean:

  0     The agent answered, or --dry-run has shown what it would be asked.
  1     The agent failed: a bad model name, an unsupported provider, a request that the provider refused as
        bad, or 50 turns without an answer. Of the commands that need a running bus: it cannot be reached, or
        what they are asked to do cannot be done (any more): a run that has ended, a turn that nobody holds.
  2     Usage and configuration: the command line, an agent that is not there, a file that is wrong, a server
        that refuses the credentials; a tree, a run, a turn or a dead letter that there is not.
  3     The model's provider: authentication, a missing key, a rate limit, overload, an error of its server,
        or the time was over.
  4     A limit on the tree: a budget or a policy.
  5     The tree was cancelled.
  130   Interrupted by ^C. Any signal that ends axe is 128 plus its number.

A sub-agent that fails does not change the exit code of its parent: the parent's model is told, and what
counts is how the parent ends. axe agents edit ends as the editor does.`,
	}
}
