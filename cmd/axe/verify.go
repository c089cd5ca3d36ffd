package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/verify"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	verifyLong = `axe verify reads the stream of a running bus, folds every run of the trees as a worker would, and checks each
message against the rules that hold whatever dies, freezes or comes twice. It changes nothing, and may run beside
the workers at any time. TREE is a tree's id, or the key of axe-submit --id; --all checks every tree.

The rules:

%s
A violation is something that no worker writes: a message was lost or deleted, somebody else wrote it, or there is
a bug. Look at the tree with "nats stream view AXE_RUNS --subject 'axe.run.*.TREE.>'". A note is harmless, as a
second outcome after a worker froze, or it cannot be decided, as what a large body said that has been forgotten.

A run whose deadline is not over may still come to its end: its tree is under way, and what it lacks is not missing
yet. What clocks and last writes differ by is --slack; --takeover is added for what is missing, since the work of a
worker that died waits until its lease is over. Where no worker has run since then, an outcome may be missing for
that reason alone. A tree whose beginning is older than the stream keeps is not checked.

Each finding is a line on stdout, and the last line is the summary; -o json prints all of it as one object.

Exit codes: 0 nothing is wrong, 1 a violation, or the bus could not be read, 2 usage or an unknown tree.`

	verifyExamples = `  axe verify --all
  axe verify nightly order4711
  axe verify --all -o json | jq '.findings[] | select(.severity == "violation")'`
)

// verification are the flags of axe verify.
type verification struct {
	session  cli.SessionFlags
	all      bool
	slack    time.Duration
	takeover time.Duration
	stdout   io.Writer
}

func verifyCommand() *cobra.Command {
	v := &verification{session: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: "verify TREE... | --all", Short: "Check what is stored of trees against the rules",
		Long: fmt.Sprintf(verifyLong, ruleLines()), Example: verifyExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			v.stdout = cmd.OutOrStdout()
			return v.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&v.all, "all", false, "check every tree on the stream")
	flags.DurationVar(&v.slack, "slack", 5*time.Second, "what clocks, and the last writes, may differ")
	flags.DurationVar(
		&v.takeover,
		"takeover",
		verify.DefaultTakeover,
		"how long a worker that died may go unnoticed: what is late by less is not missing",
	)
	v.session.Register(cmd)
	v.session.RegisterOutput(cmd, "text: a line for each finding; json: one object")
	return cmd
}

// ruleLines lists the rules as the help shows them.
func ruleLines() string {
	var b strings.Builder
	for _, r := range verify.Rules() {
		fmt.Fprintf(&b, "  %-10s %s\n", r.Rule, r.Text)
	}
	return b.String()
}

func (v *verification) check(args []string) error {
	switch {
	case v.all == (len(args) > 0):
		return cli.Usage("want the ids of trees, or --all")
	case v.slack < 0:
		return cli.Usage("--slack %s: want 0 or more", v.slack)
	case v.takeover <= 0:
		return cli.Usage("--takeover %s: want more than nothing", v.takeover)
	}
	return nil
}

func (v *verification) run(ctx context.Context, args []string) error {
	if err := v.check(args); err != nil {
		return err
	}
	s, err := v.session.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Conn.Close()
	report, err := v.read(ctx, s.Conn, args)
	if err != nil {
		return err
	}
	if err := v.print(report); err != nil {
		return err
	}
	if n := report.Violations(); n > 0 {
		return cli.Fail(cli.CodeFailed, fmt.Errorf("%s of the rules", counted(n, "violation")))
	}
	return nil
}

// read feeds the checker. What is missing is judged as of the moment before.
func (v *verification) read(ctx context.Context, conn *bus.Conn, args []string) (verify.Report, error) {
	now := time.Now()
	bounds, err := conn.Bounds(ctx)
	if err != nil {
		return verify.Report{}, err
	}
	var first []uint64
	var all uint64
	for _, b := range bounds {
		first = append(first, b.First)
		all += b.Last - min(b.Last, b.First-1)
	}
	r := reading{
		conn:    conn,
		checker: verify.New(verify.Config{Space: conn.Space(), Slack: v.slack, Takeover: v.takeover, First: first}),
	}
	if screen := cli.Stderr(); screen.Terminal() {
		r.meter = &meter{w: screen, all: all}
		defer r.meter.clear()
	}
	if v.all {
		if err := r.feedAll(ctx); err != nil {
			return verify.Report{}, err
		}
	}
	for _, key := range args {
		if err := r.feedTree(ctx, client.TreeID(key)); err != nil {
			return verify.Report{}, err
		}
	}
	return r.checker.Report(now), nil
}

func (v *verification) print(r verify.Report) error {
	if v.session.Output == "json" {
		return json.NewEncoder(v.stdout).Encode(r)
	}
	for _, f := range r.Findings {
		if _, err := fmt.Fprintln(v.stdout, cli.Printable(f.String())); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(v.stdout, verdict(r))
	return err
}
