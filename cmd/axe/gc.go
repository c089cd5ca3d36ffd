package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

const gcLong = `A model reads the memory of an agent. The command prints the analysis and
removes the oldest entries. It keeps last_n entries of the agent's [memory], or
max_entries if last_n is 0. With neither it removes nothing. It removes nothing
if the model fails, and no entry that the model has not seen.

The model is the agent's own, unless --model or AXE_MODEL names another.

Memory is in files below $XDG_DATA_HOME/axe/memory, or at the agent's [memory]
path. With store = "bus" in [memory] of config.toml it is on a running bus,
which --server or --context names.

Exit codes: 0 done, or nothing to do; 1 a bad model name, or with --all an agent
that failed; 2 usage, an unknown agent or an invalid file; 3 the model's
provider failed or the time was over; 130 ended by ^C.`

// gc holds the flags of axe gc.
type gc struct {
	dial    cli.DialFlags
	log     cli.LogFlags
	agents  string
	model   string
	all     bool
	dryRun  bool
	timeout cli.Seconds

	insecure cli.InsecureConfig

	stdout, stderr io.Writer
}

func gcCommand() *cobra.Command {
	g := &gc{timeout: cli.Seconds(120 * time.Second)}
	cmd := &cobra.Command{
		Use: "gc [AGENT]", Short: "Learn from an agent's memory, and trim it", Long: gcLong,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			g.stdout, g.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return g.run(cmd.Context(), args)
		},
	}
	registerAgents(cmd, &g.agents)
	g.insecure.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&g.model, "model", "", "provider/model, instead of the agent's own (env AXE_MODEL)")
	flags.BoolVar(&g.all, "all", false, "all agents with memory enabled, one after the other")
	flags.BoolVar(&g.dryRun, "dry-run", false, "remove nothing")
	flags.Var(&g.timeout, "timeout", "time limit of the model request: seconds, or a duration like 10m")
	g.dial.Register(cmd)
	g.log.Register(cmd, "warn")
	return cmd
}

func (g *gc) run(ctx context.Context, args []string) error {
	switch {
	case g.all && len(args) > 0:
		return cli.Usage("cannot specify both --all and an agent name")
	case !g.all && len(args) == 0:
		return cli.Usage("agent name is required (or use --all)")
	case g.timeout <= 0:
		return cli.Usage("--timeout must be positive, got %s", &g.timeout)
	}
	if err := requireAgentsDir(g.agents); err != nil {
		return err
	}
	if g.all {
		return g.allAgents(ctx)
	}
	return g.oneAgent(ctx, args[0])
}

// oneAgent collects the memory of one agent.
func (g *gc) oneAgent(ctx context.Context, name string) error {
	if _, err := subjects.ParseAgent(name); err != nil {
		return err
	}
	agent, err := cli.FindAgent(g.agents, name)
	if err != nil {
		return err
	}
	if !agent.Memory.Enabled {
		fmt.Fprintf(g.stderr, "Warning: agent %q does not have memory enabled. Skipping.\n", name)
		return nil
	}
	return g.withCollector(ctx, func(c *collector) error { return c.collect(ctx, agent) })
}

// allAgents collects the memory of every agent in the directory. An invalid
// file counts as a failed agent, since its memory settings are unknown.
func (g *gc) allAgents(ctx context.Context) error {
	agents, invalid, err := cli.LoadDir(g.agents)
	if err != nil {
		return err
	}
	agents = slices.DeleteFunc(agents, func(a configs.Agent) bool { return !a.Memory.Enabled })
	fileErrs := map[string]error{}
	for _, e := range invalid {
		name := configs.NameOf(e.File)
		fileErrs[name] = e
		agents = append(agents, configs.Agent{Name: name})
	}
	if len(agents) == 0 {
		_, err := fmt.Fprintln(g.stdout, "No agents with memory enabled.")
		return err
	}
	slices.SortFunc(agents, func(a, b configs.Agent) int { return cmp.Compare(a.Name, b.Name) })
	return g.withCollector(ctx, func(c *collector) error { return g.each(ctx, c, agents, fileErrs) })
}

// each collects the memory of the agents, one after the other. It goes on after
// an agent that fails. An agent in fileErrs has failed already.
func (g *gc) each(ctx context.Context, c *collector, agents []configs.Agent, fileErrs map[string]error) error {
	failed := 0
	for _, agent := range agents {
		if _, err := fmt.Fprintf(g.stdout, "=== GC: %s ===\n", agent.Name); err != nil {
			return err
		}
		err := fileErrs[agent.Name]
		if err == nil {
			err = c.collect(ctx, agent)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed++
			fmt.Fprintf(g.stderr, "Error: gc failed for agent %q: %s\n",
				agent.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	if failed > 0 {
		return fmt.Errorf("gc completed with errors: %d of %d agents failed", failed, len(agents))
	}
	return nil
}

// withCollector calls fn with a collector that the flags and config.toml
// configure. After fn it closes the connection to the bus, if there is one.
func (g *gc) withCollector(ctx context.Context, fn func(*collector) error) error {
	log, err := g.log.Logger(g.stderr, cli.Terminal(os.Stderr))
	if err != nil {
		return err
	}
	models, global, err := cli.Models(g.agents, 1, g.insecure, log)
	if err != nil {
		return err
	}
	conn, err := g.connect(ctx, global, log)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
		if err := cli.Ready(ctx, conn); err != nil {
			return err
		}
	}
	return fn(&collector{
		store: cli.Memory(global, conn), open: models.Open, model: cmp.Or(g.model, os.Getenv("AXE_MODEL")),
		dryRun: g.dryRun, timeout: time.Duration(g.timeout), stdout: g.stdout,
	})
}

// connect connects to the bus that the command line names, if config.toml keeps
// memory on a bus. It returns nil if memory is in files.
func (g *gc) connect(ctx context.Context, global configs.Global, log *slog.Logger) (*bus.Conn, error) {
	onBus := global.Memory == configs.MemoryOnBus
	switch {
	case onBus && !g.dial.Explicit():
		return nil, cli.Usage("--server or --context is required: %s keeps memory on the bus", global.File)
	case !onBus && g.dial.Explicit():
		return nil, cli.Usage(
			"--server and --context do not apply: memory is in files, unless %s has store = \"bus\" in [memory]",
			global.File,
		)
	case !onBus:
		return nil, nil
	}
	cfg, err := g.dial.Config(nil, log)
	if err != nil {
		return nil, err
	}
	return cli.Open(ctx, cfg, cli.ConnectTimeout)
}
