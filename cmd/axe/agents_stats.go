package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/price"
)

const (
	statsLong = `Count the runs of each agent that have ended in the last day, or in the time of
--since. The list has the number of runs, the number of those that failed, and
the time from the call to the outcome, with all waiting: half of the runs took
at most P50, and 19 in 20 at most P95. It has the time of the requests to the
model and the tokens too and, with prices in config.toml, their cost. Runs of
all levels of all trees count, without the runs below them.

--sort p95 lists the slowest agent first, failed the one that failed most, runs
and tokens the one with the most. The command reads the newest 100,000 outcomes
at most, and says so on stderr if there are more.

-o json prints an object a line: agent, runs, failed, p50_ns, p95_ns, model_ms,
usage, models (usage by model) and, with prices, cost, currency and
cost_partial.`

	statsExamples = `  axe agents stats
  axe agents stats --since 1h --sort failed
  axe agents stats --sort tokens -o json | jq -r .agent`
)

// statsOptions holds the flags of axe agents stats.
type statsOptions struct {
	session cli.SessionFlags
	since   cli.Seconds
	sort    string
}

func agentsStatsCommand() *cobra.Command {
	o := &statsOptions{session: cli.SessionFlags{Name: name, Looks: true}, since: cli.Seconds(24 * time.Hour)}
	cmd := &cobra.Command{
		Use: "stats", Short: "Count the runs of each agent on a bus", Long: statsLong, Example: statsExamples,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	o.session.Register(cmd)
	cmd.Flags().Var(&o.since, "since", "only runs that ended in this time: seconds, or a duration like 1h")
	cmd.Flags().StringVar(&o.sort, "sort", "p95", "the order of the list: p95, failed, runs or tokens")
	o.session.Output.Register(cmd, "text: a table; json: one object a line")
	return cmd
}

func (o *statsOptions) run(ctx context.Context, stdout io.Writer) error {
	if !slices.Contains(cli.StatisticsOrders(), o.sort) {
		return cli.Usage("--sort must be p95, failed, runs or tokens, got %q", o.sort)
	}
	if o.since <= 0 {
		return cli.Usage("--since must be positive, got %s", &o.since)
	}
	return o.session.Use(ctx, func(ses *cli.Session) error {
		stats, err := client.ReadStatistics(ctx, ses.Client, ses.Conn.Clocks.Now().Add(-time.Duration(o.since)))
		if err != nil {
			return err
		}
		if !stats.All {
			fmt.Fprintf(os.Stderr, "%s: there are more outcomes than the newest ones that were read\n", name)
		}
		cli.SortStatistics(stats.Agents, o.sort)
		return printStats(stdout, stats.Agents, o.session.Output, cli.Prices(name))
	})
}

func printStats(stdout io.Writer, stats []client.AgentStatistics, format cli.Output, prices price.Table) error {
	lines := make([]cli.StatisticsLine, len(stats))
	for i, s := range stats {
		lines[i] = cli.StatisticsLineOf(s, prices)
	}
	title := "AGENT\tRUNS\tFAILED\tP50\tP95\tMODEL TIME\tTOKENS IN\tTOKENS OUT"
	if !prices.IsZero() {
		title += "\tCOST " + cli.Printable(prices.Currency)
	}
	return list[cli.StatisticsLine]{title, func(s cli.StatisticsLine) string {
		row := fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s", cli.Printable(s.Agent), s.Runs, s.Failed,
			cli.ShortTime(s.P50), cli.ShortTime(s.P95), cli.ShortTime(time.Duration(s.ModelMS)*time.Millisecond),
			cli.Count(s.Usage.InputTokens), cli.Count(s.Usage.OutputTokens))
		if !prices.IsZero() {
			row += "\t" + prices.Cost(s.Models).Amount()
		}
		return row
	}}.print(stdout, format, lines)
}
