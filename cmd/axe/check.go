package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/check"
)

const (
	checkLong = `Check the agents of a directory together: the names of sub-agents and
supervisors, cycles of calls, descriptions that callers miss, skills, files,
models and their keys. DIR is the directory of --agents.

An error is a definition that cannot be carried out. A warning is a definition
that may not do what its author wants. An agent that no file defines is an
error. With --server or --context it is a warning, and none if a worker on the
bus announces the agent.

Each finding is a line on stdout. The last line is the summary. -o json prints
one object. The command asks no model.

Exit codes: 0 no error, 2 an error, or with --strict a warning; 1 the bus cannot
be reached.`

	checkExamples = `  axe agents check
  axe agents check configs/examples --strict
  axe agents check --server nats://127.0.0.1:4222
  axe agents check -o json | jq '.findings[] | select(.severity == "error")'`
)

// agentsCheck holds the flags of axe agents check.
type agentsCheck struct {
	session cli.SessionFlags
	strict  bool
	stdout  io.Writer
}

func checkCommand(a *agentFiles) *cobra.Command {
	c := &agentsCheck{session: cli.SessionFlags{Name: name, Looks: true}}
	cmd := &cobra.Command{
		Use: "check [DIR]", Short: "Check all agents together", Long: checkLong, Example: checkExamples,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.stdout = cmd.OutOrStdout()
			dir := a.dir
			if len(args) > 0 {
				if agentsGiven(cmd) {
					return cli.Usage("give the directory as an argument or with --agents, not both")
				}
				dir = args[0]
			}
			return c.run(cmd.Context(), dir)
		},
	}
	cmd.Flags().BoolVar(&c.strict, "strict", false, "let a warning count as an error")
	c.session.Register(cmd)
	c.session.Output.Register(cmd, "text: a line for each finding; json: one object")
	return cmd
}

func (c *agentsCheck) run(ctx context.Context, dir string) error {
	if err := requireAgentsDir(dir); err != nil {
		return err
	}
	log, err := c.session.Logger()
	if err != nil {
		return err
	}
	worker := cli.WorkerFlags{Agents: dir, Slots: 1}
	if err := worker.Load(log); err != nil {
		return err
	}
	report, err := c.check(ctx, &worker)
	if err != nil {
		return err
	}
	if err := c.print(report); err != nil {
		return err
	}
	if report.Errors > 0 || c.strict && report.Warnings > 0 {
		return cli.Fail(cli.CodeConfig, fmt.Errorf("%s in %s", tally(report), dir))
	}
	return nil
}

// check checks the definitions. It asks the bus for agents of other workers if
// the command line has a connection flag.
func (c *agentsCheck) check(ctx context.Context, worker *cli.WorkerFlags) (report cli.Report, err error) {
	if !c.session.Connects() {
		return worker.Check(nil)
	}
	err = c.session.Use(ctx, func(ses *cli.Session) error {
		var failed error
		elsewhere := cli.Elsewhere(ctx, ses.Conn, func(err error) { failed = err })
		if report, err = worker.Check(elsewhere); err != nil {
			return err
		}
		return failed
	})
	return report, err
}

func (c *agentsCheck) print(r cli.Report) error {
	if c.session.Output.JSON() {
		return json.NewEncoder(c.stdout).Encode(r)
	}
	if err := printLines(c.stdout, r.Findings, check.Finding.String); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "%s: %s\n", counted(r.Agents, "agent"), tally(r))
	return err
}

// tally counts the findings of a report.
func tally(r cli.Report) string {
	if len(r.Findings) == 0 {
		return "nothing is wrong"
	}
	return counted(r.Errors, "error") + ", " + counted(r.Warnings, "warning")
}
