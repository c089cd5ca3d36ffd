package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/client"
)

func waitCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "wait ID", Short: "Wait for a tree and print its answer", Args: cobra.ExactArgs(1),
		Long: "Wait for a tree and print its answer, at once if it has ended. ID is the tree's id, or the key of --id.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ses, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer ses.conn.Close()
			return named(args[0], ses.finish(cmd.Context(), client.Key(args[0]), o.output, 0))
		},
	}
}

func cancelCommand(o *options) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "Cancel a tree: the agent and all below it", Args: cobra.ExactArgs(1),
		Long: `Cancel a tree: the agent and all below it. The command returns when the cancellation is stored; no model is
asked from then on. A tree that was cancelled before is fine, one that has ended is an error.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ses, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer ses.conn.Close()
			tree := client.Key(args[0])
			switch err := ses.Cancel(cmd.Context(), tree, reason); {
			case errors.Is(err, client.ErrCancelled):
				fmt.Fprintf(os.Stderr, "%s: tree %s was cancelled already\n", name, tree)
			case err != nil:
				return named(args[0], err)
			default:
				fmt.Fprintf(os.Stderr, "%s: tree %s is cancelled\n", name, tree)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever reads the outcome")
	return cmd
}

// named says which key stands behind a tree id that its user has not seen.
func named(key string, err error) error {
	if errors.Is(err, client.ErrUnknownTree) && client.Key(key).String() != key {
		return fmt.Errorf("%w (of key %q)", err, key)
	}
	return err
}
