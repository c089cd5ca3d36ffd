package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

// deadLetters holds the flags of the axe dead commands.
type deadLetters struct {
	flags cli.SessionFlags
	agent string
	tree  string
	all   bool
}

func deadCommand() *cobra.Command {
	d := &deadLetters{flags: cli.SessionFlags{Name: name, Looks: true}}
	cmd := group(&cobra.Command{
		Use: "dead", Short: "List, show and retry dead letters",
		Long: `A worker gives up a message that was delivered too often without effect, for
example because it crashes its workers or cannot be read. The run ends as
poisoned, its caller is told, and a copy of the message with the reason is
stored as a dead letter.`,
		Example: `  axe dead list --agent reviewer
  axe dead show 4711
  id=$(axe dead retry 4711); axe wait $id`,
	})
	d.flags.Register(cmd)
	list := &cobra.Command{
		Use: "list", Short: "List the dead letters, the oldest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.list(cmd.Context(), cmd.OutOrStdout()) },
	}
	show := &cobra.Command{
		Use: "show LETTER", Short: "Show a dead letter and the task of its run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.show(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	retry := &cobra.Command{
		Use: "retry LETTER… | --all", Short: "Submit the task of a dead letter again, as a new tree",
		Long: `Submit the task of a dead letter again, to the same agent, and print the id of
the new tree. axe wait takes that id. The original tree does not change:
its caller was told of the failure. A second retry of the same letter submits
nothing and prints the id of the first. The run's budget applies to the new tree
too. Its time limit starts anew.`,
		RunE: func(cmd *cobra.Command, args []string) error { return d.retry(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	for _, sub := range []*cobra.Command{list, retry} {
		sub.Flags().StringVar(&d.agent, "agent", "",
			"only letters of this agent; with retry LETTER, the agent for a letter that names none")
		sub.Flags().StringVar(&d.tree, "tree", "", "only letters of this tree")
	}
	for _, sub := range []*cobra.Command{list, show, retry} {
		d.flags.Output.Register(sub, "text, or json: one object a line")
	}
	retry.Flags().BoolVar(&d.all, "all", false, "all letters that were not retried yet")
	cmd.AddCommand(list, show, retry)
	return cmd
}

// findLetter returns the dead letter with the number in arg.
func findLetter(ctx context.Context, ses *cli.Session, arg string) (client.DeadLetter, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return client.DeadLetter{}, cli.Usage("letter %q must be a number from axe dead list", arg)
	}
	return ses.DeadLetter(ctx, id)
}
