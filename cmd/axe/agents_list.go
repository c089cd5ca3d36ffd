package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
)

const (
	listLong = `List the agents of a directory. With --server or --context, list the agents that
the workers on the bus have announced, and the workers that serve each of them.

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
	for _, a := range all {
		if _, err := fmt.Fprintln(l.stdout, cli.Printable(a.line(l.now))); err != nil {
			return err
		}
	}
	return nil
}

// listedAgent is an agent of the list.
type listedAgent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitzero"`
	Model       string   `json:"model,omitzero"`
	SubAgents   []string `json:"sub_agents,omitempty"`
	// Workers are the workers that serve the agent. It is nil for an agent
	// of a directory.
	Workers []string `json:"workers,omitzero"`
	// Former are the workers that served the agent in the last day and are
	// gone. It is empty while a worker serves the agent.
	Former []string `json:"former,omitempty"`
	// Since is the time of the last sign of life of the former workers, for
	// an agent without a worker.
	Since time.Time `json:"since,omitzero"`
	// Problem says why no worker can serve the agent.
	Problem string `json:"problem,omitzero"`
}

// line describes the agent on one line.
func (a listedAgent) line(now time.Time) string {
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
func (l *agentsList) agents(ctx context.Context, dir string, stderr io.Writer) (all []listedAgent, err error) {
	l.now = time.Now()
	if !l.session.Connects() {
		return agentsIn(dir, stderr)
	}
	err = l.session.Use(ctx, func(ses *cli.Session) (err error) {
		l.now = ses.Conn.Clocks.Now()
		all, err = agentsOn(ctx, ses.Conn)
		return err
	})
	return all, err
}

// agentsIn lists the valid agents of a directory, and prints a warning for each
// invalid file.
func agentsIn(dir string, stderr io.Writer) ([]listedAgent, error) {
	all := []listedAgent{} // never null
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

func listed(a configs.Agent) listedAgent {
	return listedAgent{Name: a.Name, Description: a.Description, Model: a.Model, SubAgents: a.SubAgents}
}

// agentsOn lists the agents that workers have announced on a bus.
func agentsOn(ctx context.Context, conn *bus.Conn) ([]listedAgent, error) {
	cards, err := cardsOn(ctx, conn)
	if err != nil {
		return nil, err
	}
	survey, err := presence.New(conn).Survey(ctx)
	if err != nil {
		return nil, err
	}
	all := []listedAgent{} // never null
	for _, c := range cards {
		if c.Toolset != "" {
			continue
		}
		a := listedAgent{
			Name: c.Name, Description: c.Description, Model: c.Model, SubAgents: c.SubAgents, Problem: c.Problem,
			Workers: []string{},
		}
		s := survey.Serving(ctx, c.Name)
		a.Workers = append(a.Workers, s.Live...)
		if s.Unserved() {
			a.Former = s.Former
			a.Since = s.Since
		}
		all = append(all, a)
	}
	return all, nil
}
