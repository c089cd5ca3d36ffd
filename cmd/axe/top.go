package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/cmd/internal/top"
)

const (
	topLong = `Show a bus in a full screen: the trees at work, the agents with the work that
waits for them and their rates, and the workers with their slots. A line above
has the sums: trees, runs that ended in the last minute, their tokens and, with
prices in config.toml, their cost. The screen is read again each --interval.

Enter opens the tree under the cursor, and then the conversation of a run. c
cancels, a approves and d denies a turn that is held for a person: each asks
first. tab goes to the next list, ? lists the keys, and q leaves.

If stdout is no terminal, or with --once, the command prints the lists once and
ends. QUEUE counts the submissions and runs of the listed trees that no worker
has in hand: of 200 trees at most, the newest.`

	topExamples = `  axe top
  axe top --context prod --interval 5s
  axe top --once | head`

	// topInterval is the default of --interval, and topLeast the least.
	topInterval = 2 * time.Second
	topLeast    = 500 * time.Millisecond
)

func topCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		interval, once, by := cli.Seconds(topInterval), false, ""
		cmd := &cobra.Command{
			Use: "top", Short: "Show the bus in a full screen", Long: topLong, Example: topExamples, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if time.Duration(interval) < topLeast {
					return cli.Usage("--interval must be at least %s, got %s", topLeast, &interval)
				}
				return f.Use(cmd.Context(), func(ses *cli.Session) error {
					return showTop(cmd.Context(), cmd.OutOrStdout(), once, top.Config{
						Session: ses, Interval: time.Duration(interval), By: by, Prices: cli.Prices(name),
						Colour: cli.Colour(os.Stdout),
					})
				})
			},
		}
		cmd.Flags().Var(&interval, "interval", "time between two looks: seconds, or a duration like 5s")
		cmd.Flags().BoolVar(&once, "once", false, "print the lists once")
		cmd.Flags().StringVar(&by, "by", os.Getenv("USER"), "your name, for the record of approvals and denials")
		return cmd
	})
}

func showTop(ctx context.Context, stdout io.Writer, once bool, cfg top.Config) error {
	if once || !cli.Terminal(os.Stdout) || !cli.Terminal(os.Stdin) {
		return top.Print(ctx, stdout, cfg)
	}
	return top.Run(ctx, cfg)
}
