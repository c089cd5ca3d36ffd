package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
)

const (
	listLong = `List the agents of a directory. A directory that does not exist has no agents.
With --server or --context, list the agents that the workers on the bus have
announced, and the workers that serve each of them.

An agent without a worker is listed with the workers that served it in the last
day. If no worker of axe has served it, a program of another kind may do it.

Exit codes: 0 listed, 1 the bus cannot be reached, 2 usage, or a directory that
cannot be read.`

	listExamples = `  axe agents list
  axe agents list --server nats://127.0.0.1:4222
  axe agents list --context prod -o json | jq '.[] | select(.workers == [])'`
)

// agentsList holds the flags of axe agents list.
type agentsList struct {
	session cli.SessionFlags
	stdout  io.Writer
	// now is the server's time or, for a list of a directory, this
	// machine's.
	now time.Time
}

func agentsListCommand(a *agentFiles) *cobra.Command {
	l := &agentsList{session: cli.SessionFlags{Name: name, Looks: true}}
	cmd := &cobra.Command{
		Use: "list", Short: "List all agents", Long: listLong, Example: listExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l.stdout = cmd.OutOrStdout()
			return l.run(cmd.Context(), a.dir, cmd.ErrOrStderr())
		},
	}
	l.session.Register(cmd)
	l.session.Output.Register(cmd, "text: a line for each agent; json: one array")
	return cmd
}

func (l *agentsList) run(ctx context.Context, dir string, stderr io.Writer) error {
	all, err := l.agents(ctx, dir, stderr)
	if err != nil {
		return err
	}
	if l.session.Output.JSON() {
		return json.NewEncoder(l.stdout).Encode(all)
	}
	return printLines(l.stdout, all, func(a cli.AgentLine) string { return agentLine(a, l.now) })
}

// agentLine describes the agent on one line.
func agentLine(a cli.AgentLine, now time.Time) string {
	line := a.Name
	if about := summary(a.Description); about != "" {
		line += " - " + about
	}
	service := presence.Service{Agent: a.Name, Live: a.Workers, Former: a.Former, Since: a.Since}
	switch {
	case a.Problem != "":
		return line + " (" + a.Problem + ")"
	case a.Workers == nil:
		return line
	case service.Unserved():
		return line + " (" + service.Text(now) + ")"
	case len(a.Workers) == 0:
		return line + " (no worker is known to serve it)"
	}
	return line + " (served by " + strings.Join(a.Workers, ", ") + ")"
}

// agents lists the agents of the bus, if the command line has a connection
// flag, or else those of the directory.
func (l *agentsList) agents(ctx context.Context, dir string, stderr io.Writer) (all []cli.AgentLine, err error) {
	l.now = time.Now()
	if !l.session.Connects() {
		return agentsIn(dir, stderr)
	}
	err = l.session.Use(ctx, func(ses *cli.Session) (err error) {
		l.now = ses.Conn.Clocks.Now()
		all, err = cli.Agents(ctx, ses.Conn)
		return err
	})
	return all, err
}

// agentsIn lists the valid agents of a directory, and prints a warning for each
// invalid file.
func agentsIn(dir string, stderr io.Writer) ([]cli.AgentLine, error) {
	all := []cli.AgentLine{} // never null
	if err := requireAgentsDir(dir); err != nil {
		return nil, err
	}
	agents, invalid, err := cli.LoadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		all = append(all, listed(a))
	}
	for _, wrong := range invalid {
		warn(stderr, wrong)
	}
	return all, nil
}

func listed(a configs.Agent) cli.AgentLine {
	return cli.AgentLine{Name: a.Name, Description: a.Description, Model: a.Model, SubAgents: a.SubAgents}
}
