package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/verify"
)

const (
	verifyLong = `Read the stream of a running bus, fold every run of the trees as a worker does,
and check each message against the rules. The rules hold even if processes die,
freeze or receive messages twice. The command changes nothing and may run beside
the workers at any time. TREE is a tree's id, or the key of --id.
--all checks every tree. --file checks the trees of an export, without a bus.

The rules:

%s
A violation is a message, or a missing message, that no worker produces: a
message was lost or deleted, another program wrote it, or there is a bug. Look
at the tree with "nats stream view AXE_RUNS --subject 'axe.run.*.TREE.>'". A
note is harmless, for example a second outcome after a worker froze, or it
cannot be decided, for example because a large body is no longer stored.

A run whose deadline has not passed may still end. Its tree counts as under way
and is named, and nothing of it counts as missing. --slack allows for different
clocks and for the last writes. --takeover is added before a message counts as
missing, since the work of a dead worker waits until its lease is over. If no
worker has run since then, an outcome may be missing for that reason alone. A
tree that began before the oldest message on the stream is not checked. It is a
violation if its beginning was too young to be dropped for its age.

Each finding is a line on stdout. The last line is the summary. -o json prints
one object. A run that no worker goes on with is a line too, and no violation:
the first ten trees under way are asked for such runs.

Exit codes: 0 no violation, 1 a violation, or the bus could not be read, 2 usage
or an unknown tree.`

	verifyExamples = `  axe verify --all
  axe verify nightly order4711
  axe verify --file trees.jsonl
  axe verify --all -o json | jq '.findings[] | select(.severity == "violation")'`
)

// verification holds the flags of axe verify.
type verification struct {
	session  cli.SessionFlags
	all      bool
	file     string
	slack    time.Duration
	takeover time.Duration
	stdout   io.Writer
}

func verifyCommand() *cobra.Command {
	v := &verification{
		session: cli.SessionFlags{Name: name, Looks: true}, slack: 5 * time.Second, takeover: verify.DefaultTakeover,
	}
	cmd := &cobra.Command{
		Use: "verify TREE... | --all | --file FILE", Short: "Check the stored messages of trees against the rules",
		Long: fmt.Sprintf(verifyLong, ruleLines()), Example: verifyExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			v.stdout = cmd.OutOrStdout()
			return v.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&v.all, "all", false, "check every tree on the stream")
	flags.StringVar(&v.file, "file", "", "check the trees of an export, as of its time")
	flags.Var((*cli.Seconds)(&v.slack), "slack", "tolerance for different clocks and for the last writes")
	flags.Var((*cli.Seconds)(&v.takeover), "takeover", "time until another worker takes over from a dead one")
	v.session.Register(cmd)
	v.session.Output.Register(cmd, "text: a line for each finding; json: one object")
	return cmd
}

// ruleLines lists the rules as the help shows them, in at most 80 columns.
func ruleLines() string {
	var b strings.Builder
	for _, r := range verify.Rules() {
		line := fmt.Sprintf("  %-10s", r.Rule)
		for word := range strings.FieldsSeq(r.Text) {
			if len(line)+1+len(word) > 80 {
				fmt.Fprintln(&b, line)
				line = strings.Repeat(" ", 12)
			}
			line += " " + word
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

func (v *verification) check(args []string) error {
	switch {
	case v.file != "" && (v.all || len(args) > 0):
		return cli.Usage("--file checks all trees of the file: name no trees, and leave --all out")
	case v.file == "" && v.all == (len(args) > 0):
		return cli.Usage("name trees, or give --all or --file")
	case v.slack < 0:
		return cli.Usage("--slack must not be negative, got %s", v.slack)
	case v.takeover <= 0:
		return cli.Usage("--takeover must be positive, got %s", v.takeover)
	}
	return nil
}

func (v *verification) run(ctx context.Context, args []string) error {
	if err := v.check(args); err != nil {
		return err
	}
	var report checkedTrees
	err := v.readFile(&report.Report)
	if v.file == "" {
		err = v.session.Use(ctx, func(s *cli.Session) (err error) {
			if report.Report, err = v.read(ctx, s.Conn, args); err != nil {
				return err
			}
			report.Stalled, err = stalledRuns(ctx, s.Client, report.Report)
			return err
		})
	}
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

// read gives the messages to the checker. Missing messages are judged as of the
// moment before the read.
func (v *verification) read(ctx context.Context, conn *bus.Conn, args []string) (verify.Report, error) {
	// Without the bucket no worker was there to measure a step.
	_ = presence.LearnClockSteps(ctx, conn)
	now := conn.Clocks.Now()
	bounds, err := conn.Bounds(ctx)
	if err != nil {
		return verify.Report{}, err
	}
	cfg := verify.Config{Space: conn.Space(), Slack: v.slack, Takeover: v.takeover}
	var all uint64
	for _, b := range bounds {
		cfg.First = append(cfg.First, b.First)
		cfg.Aged = append(cfg.Aged, b.Aged)
		all += b.Last - min(b.Last, b.First-1)
	}
	r := &reading{conn: conn}
	cfg.Refuses = r.refuses(ctx)
	r.checker = verify.New(cfg)
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
	if err := r.checkArtifacts(ctx); err != nil {
		return verify.Report{}, err
	}
	// A deadline and the time of a call are of two clocks.
	longest := max(0, cmp.Or(r.checker.Longest(), agentd.DefaultTimeout)-cfg.Slack)
	losses, err := conn.Health.Losses(ctx, longest)
	if err != nil {
		return verify.Report{}, err
	}
	findings := []verify.Finding{} // never null
	for _, l := range losses {
		findings = append(findings, verify.Finding{Severity: verify.Violation, Rule: verify.Stream, Text: l.String()})
	}
	report := r.checker.Report(now)
	report.Findings = append(findings, report.Findings...)
	return report, nil
}

func (v *verification) print(r checkedTrees) error {
	if v.session.Output.JSON() {
		return json.NewEncoder(v.stdout).Encode(r)
	}
	if err := printLines(v.stdout, r.Findings, verify.Finding.String); err != nil {
		return err
	}
	if err := printLines(v.stdout, r.Stalled, stalledRun.String); err != nil {
		return err
	}
	_, err := fmt.Fprintln(v.stdout, verdict(r.Report))
	return err
}
