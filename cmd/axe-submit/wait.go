package main

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

func waitCommand(f *cli.SessionFlags) *cobra.Command {
	l := &waitFlags{}
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait for a tree and print its answer", Args: cobra.ExactArgs(1),
		Long: "Wait for a tree and print its answer, at once if it has ended. ID is the\n" +
			"tree's id, or the key of --id.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.check(); err != nil {
				return err
			}
			return f.UseRun(cmd.Context(), args, func(ses *cli.Session, t cli.Target) error {
				return l.attend(cmd.Context(), ses, t.Tree, f.Output, 0)
			})
		},
	}
	l.register(cmd)
	return cmd
}
