package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	diffLong = `Say where two trees part. The conversations of both are compared from the root,
message by message, without times, workers, models and tokens. Where the results
of a call differ, the conversations of the runs that it made are compared. The
command shows where a difference begins, and leaves out the consequences.

-o json prints an object a line for each place: path, and the first messages
that differ, a and b, as in axe log. One of them is null if its tree ends
before.

Exit codes: 0 the same, 1 the trees part, or the bus cannot be reached, 2 usage,
or a tree that does not exist.`

	diffExamples = `  axe diff nightly1 nightly2
  axe diff 5Rt0yAkYxJ 7fYp2LmQzA -o json | jq -r .path`
)

// errPart is the error of trees that part.
var errPart = errors.New("the trees part")

func diffCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		cmd := &cobra.Command{
			Use: "diff ID1 ID2", Short: "Say where two trees part", Long: diffLong, Example: diffExamples,
			Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.Use(cmd.Context(), func(ses *cli.Session) error {
					return printDiff(cmd.Context(), ses, args, cmd.OutOrStdout(), f.Output)
				})
			},
		}
		f.Output.Register(cmd, "text: the places for people; json: one object a line")
		return cmd
	})
}

func printDiff(ctx context.Context, ses *cli.Session, args []string, stdout io.Writer, format cli.Output) error {
	var trees []*client.Snapshot
	for _, arg := range args {
		t, err := ses.Target(ctx, arg)
		if err != nil {
			return err
		}
		s, err := ses.Snapshot(ctx, t.Tree)
		if err != nil {
			return err
		}
		trees = append(trees, s)
	}
	partings := client.Compare(trees[0], trees[1])
	if format.JSON() {
		if err := printEach(stdout, partings); err != nil {
			return err
		}
	} else if err := cli.PrintPartings(stdout, trees[0], trees[1], partings); err != nil {
		return err
	}
	if len(partings) > 0 {
		return errPart
	}
	return nil
}
