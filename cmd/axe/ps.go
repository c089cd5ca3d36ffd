package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

const (
	psLong = `List trees, the newest first: those at work or, with --all, those that have
ended too. A tree is at work from its submission to its outcome, however long it
waits.

  queued     no worker has taken the submission yet
  running    a worker has a run of the tree in hand
  waiting    none has: WAITS FOR says for what the tree waits
  held       a run waits for a person: see axe pending
  completed  the root has answered
  failed     the root has failed, was cancelled, or was refused

RUNS are the runs that have ended and all that were called so far, without calls
of tools. TURNS are answers of models, and TOKENS their input and output, of the
whole tree. With prices in config.toml COST is what the tokens cost; a + at its
end stands for tokens of models without a price. --agent chooses trees by the
agent of the root, --status by the status, and --since by the time since they
began. --status failed or completed implies --all.

A list has 20 trees, or -n. If there are more, stderr has the command for the
next ones. The command looks at 10,000 trees at most, so a rare status may need
several of them.

-o json prints an object a line: tree, agent, status, began, ended, runs, done,
turns, input_tokens, output_tokens, cached_tokens, model_calls, tool_calls,
model_ms, waits_for, task, error, kind and, with prices, cost, currency and
cost_partial.

axe show ID draws one tree.`

	psExamples = `  axe ps
  axe ps --all --since 1h
  axe ps --status failed --agent reviewer -n 100
  axe ps --status held -o json | jq -r .tree`
)

// psOptions holds the flags of axe ps.
type psOptions struct {
	session  *cli.SessionFlags
	agent    string
	statuses []string
	since    cli.Seconds
	all      bool
	n        int
	before   string
}

func psCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		o := &psOptions{session: f}
		cmd := &cobra.Command{
			Use: "ps", Short: "List the trees at work, or all", Long: psLong, Example: psExamples, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			},
		}
		flags := cmd.Flags()
		flags.StringVar(&o.agent, "agent", "", "only trees of which the root is this agent")
		statuses := strings.Join(cli.StatusNames(), ", ")
		flags.StringSliceVar(&o.statuses, "status", nil,
			"only trees with one of these statuses: "+statuses+"; with commas between them")
		flags.Var(&o.since, "since", "only trees that began in this time: seconds, or a duration like 1h")
		flags.BoolVarP(&o.all, "all", "a", false, "trees that have ended too")
		flags.IntVarP(&o.n, "number", "n", client.DefaultTrees, "largest number of trees")
		flags.StringVar(&o.before, "before", "", "go on after this tree, the last one of the list before")
		cli.CompleteStatus(cmd, "status")
		f.Output.Register(cmd, "text: a table; json: one object a line")
		return cmd
	})
}

// query makes the query of the flags.
func (o *psOptions) query() (q client.TreeQuery, err error) {
	q.All, q.N = o.all, o.n
	if o.n < 1 {
		return q, cli.Usage("--number must be at least 1, got %d", o.n)
	}
	if o.since < 0 {
		return q, cli.Usage("--since must not be negative, got %s", &o.since)
	}
	if o.agent != "" {
		if q.Agent, err = subjects.ParseAgent(o.agent); err != nil {
			return q, err
		}
	}
	for _, name := range o.statuses {
		s := client.TreeStatus(name)
		if !slices.Contains(client.TreeStatuses(), s) {
			return q, cli.Usage("--status must be one of %s, got %q", strings.Join(cli.StatusNames(), ", "), name)
		}
		q.Statuses = append(q.Statuses, s)
	}
	if o.since > 0 {
		q.Since = time.Now().Add(-time.Duration(o.since))
	}
	return q, nil
}

func (o *psOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	q, err := o.query()
	if err != nil {
		return err
	}
	return o.session.Use(ctx, func(ses *cli.Session) error {
		if o.before != "" {
			t, err := ses.Target(ctx, o.before)
			if err != nil {
				return err
			}
			q.Before = t.Tree
		}
		page, err := ses.Trees(ctx, q)
		if err != nil {
			return err
		}
		if err := o.print(stdout, page); err != nil {
			return err
		}
		o.hint(stderr, page, q)
		return nil
	})
}

// print prints the trees of a page.
func (o *psOptions) print(stdout io.Writer, page client.TreePage) error {
	d := cli.DisplayNow(name)
	if o.session.Output.JSON() {
		for _, t := range page.Trees {
			if err := cli.PrintJSON(stdout, cli.TreeLineOf(t, d)); err != nil {
				return err
			}
		}
		return nil
	}
	return cli.PrintTrees(stdout, page.Trees, d)
}

// hint says on stderr how the list goes on.
func (o *psOptions) hint(stderr io.Writer, page client.TreePage, q client.TreeQuery) {
	switch {
	case !page.Last.IsZero():
		fmt.Fprintf(stderr, "%s: there may be more: --before %s\n", name, page.Last)
	case len(page.Trees) == 0 && !o.all && len(q.Statuses) == 0:
		fmt.Fprintf(stderr, "%s: no tree is at work; --all lists those that have ended\n", name)
	case len(page.Trees) == 0:
		fmt.Fprintf(stderr, "%s: no such tree\n", name)
	}
}
