package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	showLong = `Draw a tree as it is now: each run with its status, time, tokens, worker, model
and retries. For a run that has not ended the line says why: a worker asks its
model, it waits for a slot or for a person, no worker serves its agent, or its
provider's gate is closed. The second line from the top says it for the root,
down to the run that holds it up. With a PATH the command draws that run with
the runs below it, and prints what is known of it.

The workers are asked what they have in hand, so a worker of an earlier version
leaves out the reason of a run that waits. axe log shows what a run said.

-o json prints an object a line, for each run: tree, path, agent, tool, status,
why, called, ended, deadline, model, turns, retries, input_tokens,
output_tokens, cached_tokens, worker, task, by, result, error, kind, spans and,
with prices in config.toml, cost, currency and cost_partial, of the run alone.
The field by is the user that submitted the tree, if the server has proven it.
The status of a run is completed or failed or, before that, ready (for its model
or tool), awaiting (calls or a review), idle (until mail comes), held (for a
person) or polling (its tool's server). The spans divide the time of the run:
each has a kind (queue, model, tool, wait or held), from and to.`

	showExamples = `  axe show 5Rt0yAkYxJ
  axe show 5Rt0yAkYxJ r-1-2
  axe show 5Rt0yAkYxJ -o json | jq 'select(.status == "failed") | .error'`
)

func showCommand() *cobra.Command {
	return listCommand(&cobra.Command{
		Use: "show ID [PATH]", Short: "Draw a tree, and say why each run is where it is",
		Long: showLong, Example: showExamples, Args: cli.RunArgs,
	}, printShow)
}

func printShow(ctx context.Context, ses *cli.Session, t cli.Target, stdout io.Writer, format cli.Output) error {
	s, err := ses.Snapshot(ctx, t.Tree)
	if err != nil {
		return err
	}
	if !t.Path.IsRoot() && !s.Has(t.Path) {
		return fmt.Errorf("%w: %s of tree %s", client.ErrUnknownRun, t.Path, t.Tree)
	}
	if format.JSON() {
		return printEach(stdout, cli.RunLines(s, t.Path, cli.DisplayNow(name)))
	}
	return cli.PrintSnapshot(stdout, s, t.Path, cli.DisplayNow(name))
}
