package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/internal/presence"
)

const (
	toolsLong = `List the tools that an agent would be offered: the name for its model, where the
tool comes from, its effect, and the workers that serve it. Without an agent,
list the tools of all toolsets.

The toolsets are in the directory tools/ beside a directory with the name
agents, and in tools/ below any other directory of agents. The command starts
their servers and asks them for their tools. With --server or --context it reads
what the workers on the bus have announced instead.

Effects: read changes nothing; idempotent may be called again with the same key;
once is not called again after a crash.

Exit codes: 0 listed, 1 the bus cannot be reached, 2 usage or an unknown agent.`

	toolsExamples = `  axe tools
  axe tools mender --server nats://127.0.0.1:4222
  axe tools -o json | jq '.[] | {name, schema}'
  axe tools call shop/refund '{"order":"7","cents":100}'`
)

// tools holds the flags of axe tools and axe tools call.
type tools struct {
	station

	log    cli.LogFlags
	output cli.Output
	stdout io.Writer
}

func toolsCommand() *cobra.Command {
	t := &tools{}
	cmd := &cobra.Command{
		Use: "tools [AGENT]", Short: "List the tools of agents, and try one", Long: toolsLong, Example: toolsExamples,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.stdout = cmd.OutOrStdout()
			return t.list(cmd.Context(), args)
		},
	}
	t.cmd = cmd
	t.register(cmd)
	t.output.Register(cmd, "text: a line for each tool; json: one array")
	cmd.AddCommand(toolsCallCommand())
	return cmd
}

// register adds the flags that both commands have.
func (t *tools) register(cmd *cobra.Command) {
	registerAgents(cmd, &t.worker.Agents)
	t.worker.Register(cmd)
	t.dial.Register(cmd)
	t.log.Register(cmd, "warn")
}

// on calls fn with a bus that has the cards of toolsets: a running one, or
// one of its own with a worker in this process. Screen shows the log.
func (t *tools) on(
	ctx context.Context, screen *cli.Screen, fn func(context.Context, *bus.Conn, *slog.Logger) error,
) error {
	if !t.remote() {
		if err := t.dial.CheckUnused(); err != nil {
			return err
		}
	}
	log, err := t.log.Logger(screen, screen.Terminal())
	if err != nil {
		return err
	}
	if t.works() {
		if err := requireAgentsDir(t.worker.Agents); err != nil {
			return err
		}
		t.worker.Grace, t.worker.Ephemeral = drainTimeout, !t.remote()
		if err := t.worker.Load(log); err != nil {
			return err
		}
	}
	return t.use(ctx, log, screen, func(ctx context.Context, conn *bus.Conn) error { return fn(ctx, conn, log) })
}

// listedTool is a tool of the list.
type listedTool struct {
	// Name is "toolset/tool", or the name of a built-in tool.
	Name string `json:"name"`
	// As is the name for the model.
	As string `json:"as,omitzero"`
	// Kind is "built-in", or the kind of the toolset.
	Kind        string          `json:"kind,omitzero"`
	Effect      string          `json:"effect,omitzero"`
	Timeout     string          `json:"timeout,omitzero"`
	Description string          `json:"description,omitzero"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	// Workers are the workers that serve the tool. It is nil if there is no
	// other process.
	Workers []string `json:"workers,omitzero"`
	// Problem says why the tool cannot be offered.
	Problem string `json:"problem,omitzero"`
}

func (t *tools) list(ctx context.Context, args []string) error {
	return t.on(ctx, cli.Stderr(), func(ctx context.Context, conn *bus.Conn, _ *slog.Logger) error {
		cards, err := cli.Cards(ctx, conn)
		if err != nil {
			return err
		}
		served, err := t.servers(ctx, conn)
		if err != nil {
			return err
		}
		var all []listedTool
		if len(args) > 0 {
			if all, err = t.offeredTo(args[0], cards, served); err != nil {
				return err
			}
		} else {
			for _, c := range cards {
				if c.Toolset != "" {
					all = append(all, ofToolset(c, "*", served(c.Name))...)
				}
			}
		}
		return t.print(all)
	})
}

// servers returns the function that returns the workers that serve an agent or
// a toolset. On a bus of its own there is this process alone, and it returns
// nil.
func (t *tools) servers(ctx context.Context, conn *bus.Conn) (func(name string) []string, error) {
	if !t.remote() {
		return func(string) []string { return nil }, nil
	}
	survey, err := presence.New(conn).Survey(ctx)
	return func(name string) []string { return append([]string{}, survey.Serving(ctx, name).Live...) }, err
}

func cardOf(cards []agentd.Card, name string) (agentd.Card, bool) {
	i := slices.IndexFunc(cards, func(c agentd.Card) bool { return c.Name == name })
	if i < 0 {
		return agentd.Card{}, false
	}
	return cards[i], true
}

// offeredTo lists the tools of an agent. Served returns the workers that serve
// an agent or a toolset.
func (t *tools) offeredTo(
	agent string, cards []agentd.Card, served func(name string) []string,
) (all []listedTool, _ error) {
	c, ok := cardOf(cards, agent)
	switch {
	case !ok && t.works():
		return nil, cli.NotFound(t.worker.Agents, agent)
	case !ok:
		return nil, cli.Fail(cli.CodeConfig, fmt.Errorf("no worker announces the agent %s", agent))
	case c.CallProblem() != "":
		return nil, cli.Fail(cli.CodeConfig, fmt.Errorf("%s: %s", agent, c.CallProblem()))
	}
	for _, named := range c.Tools {
		set, glob, ok := configs.OfToolset(named.Name)
		if !ok {
			all = append(all, builtIn(named, served(agent)))
			continue
		}
		card, ok := cardOf(cards, set)
		switch {
		case !ok:
			all = append(all, listedTool{Name: named.Name, Problem: "no worker serves the toolset"})
		case card.Toolset == "":
			all = append(all, listedTool{Name: named.Name, Problem: set + " is an agent, and no toolset"})
		default:
			all = append(all, ofToolset(card, glob, served(set))...)
		}
	}
	for _, server := range c.Servers {
		l := listedTool{Name: server + "/*", Kind: string(configs.ToolsetMCP), Workers: served(agent)}
		l.Description = "The tools of the agent's own MCP server"
		all = append(all, l)
	}
	return all, nil
}

func builtIn(named agentd.OfferedTool, workers []string) listedTool {
	l := listedTool{Name: named.Name, As: named.As, Kind: "built-in", Effect: string(named.Effect), Workers: workers}
	if t, ok := builtin.Find(named.Name); ok {
		l.Description = t.Definition.Description
	}
	if named.Timeout > 0 {
		l.Timeout = named.Timeout.String()
	}
	return l
}

// ofToolset lists the tools on the card of a toolset that a glob matches.
func ofToolset(c agentd.Card, glob string, workers []string) (all []listedTool) {
	if c.Problem != "" {
		return []listedTool{{Name: c.Name + "/" + glob, Kind: c.Toolset, Workers: workers, Problem: c.Problem}}
	}
	for _, t := range c.Tools {
		if ok, _ := path.Match(glob, t.Name); !ok {
			continue
		}
		l := listedTool{
			Name:        c.Name + "/" + t.Name,
			As:          t.As,
			Kind:        c.Toolset,
			Effect:      string(t.Effect),
			Description: t.Description,
			Schema:      t.Schema,
			Workers:     workers,
		}
		if t.Timeout > 0 {
			l.Timeout = t.Timeout.String()
		}
		all = append(all, l)
	}
	if len(all) == 0 {
		all = []listedTool{
			{Name: c.Name + "/" + glob, Kind: c.Toolset, Workers: workers, Problem: "the toolset has no such tool"},
		}
	}
	return all
}

func (t *tools) print(all []listedTool) error {
	if t.output.JSON() {
		return json.NewEncoder(t.stdout).Encode(append([]listedTool{}, all...))
	}
	return printLines(t.stdout, all, listedTool.line)
}

// line describes the tool on one line.
func (l listedTool) line() string {
	parts := []string{}
	if l.Kind != "" {
		parts = append(parts, l.Kind)
	}
	if l.Effect != "" {
		parts = append(parts, l.Effect)
	}
	if _, tool, ok := configs.OfToolset(l.Name); ok && l.As != "" && l.As != tool {
		parts = append(parts, "as "+l.As)
	}
	switch {
	case l.Problem != "":
		parts = append(parts, l.Problem)
	case l.Workers == nil:
	case len(l.Workers) == 0:
		parts = append(parts, "no worker serves it")
	default:
		parts = append(parts, "served by "+strings.Join(l.Workers, ", "))
	}
	line := l.Name + " (" + strings.Join(parts, "; ") + ")"
	if about := summary(l.Description); about != "" {
		line += " - " + about
	}
	return line
}
