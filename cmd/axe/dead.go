package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

// deadLetters are the commands about what could not be carried out.
type deadLetters struct {
	flags cli.SessionFlags
	agent string
	tree  string
	all   bool
}

func deadCommand() *cobra.Command {
	d := &deadLetters{flags: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: "dead", Short: "See and retry what could not be carried out", Args: cobra.NoArgs,
		Long: `A message that was delivered again and again without effect, because it kills its workers or cannot be read, is given up:
its run ends as poisoned, its caller is told, and a copy of the message with the reason is kept as a dead letter.`,
		Example: `  axe dead list --agent reviewer
  axe dead show 4711
  id=$(axe dead retry 4711); axe-submit wait $id`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	d.flags.Register(cmd)
	d.flags.RegisterOutput(cmd, "text, or json: one object a line")
	list := &cobra.Command{
		Use: "list", Short: "List the dead letters, the oldest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.list(cmd.Context(), cmd.OutOrStdout()) },
	}
	show := &cobra.Command{
		Use: "show LETTER", Short: "Show a dead letter, and what its run was asked", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.show(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	retry := &cobra.Command{
		Use: "retry LETTER… | --all", Short: "Submit the task of a dead letter again, as a tree of its own",
		Long: `Submit the task of a dead letter again, to the same agent, and print the id of the new tree, which axe-submit wait takes.
The tree that it was part of has been told of the failure and is not changed. A letter that was retried before is not
submitted again: it is the same tree, and its id is printed. The bounds that the run was under hold for it too; its
time is new.`,
		RunE: func(cmd *cobra.Command, args []string) error { return d.retry(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	for _, sub := range []*cobra.Command{list, retry} {
		sub.Flags().StringVar(
			&d.agent,
			"agent",
			"",
			"only those of an agent; with retry LETTER, the agent to submit one to that names none",
		)
		sub.Flags().StringVar(&d.tree, "tree", "", "only those of a tree")
	}
	retry.Flags().BoolVar(&d.all, "all", false, "all that were not retried yet")
	cmd.AddCommand(list, show, retry)
	return cmd
}

// with calls fn with an open session.
func (d *deadLetters) with(ctx context.Context, fn func(*cli.Session) error) error {
	ses, err := d.flags.Open(ctx)
	if err != nil {
		return err
	}
	defer ses.Conn.Close()
	return fn(ses)
}

// named is the letter that an argument names.
func named(ctx context.Context, ses *cli.Session, arg string) (client.DeadLetter, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return client.DeadLetter{}, cli.Usage("letter %q: want its number, as axe dead list has it", arg)
	}
	return ses.DeadLetter(ctx, id)
}
