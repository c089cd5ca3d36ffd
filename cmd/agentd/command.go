package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/cmd/internal/web"
)

const (
	name = "agentd"

	long = `agentd is a worker. It serves every agent that has a TOML file in a directory.
Tasks come over NATS JetStream, from axe-submit, from other agents or from any
publisher. Any worker takes any turn of any agent that it serves. Start as many
workers as you like. A worker that dies loses nothing.

The worker picks up files that are added, changed or removed, without a restart.
It logs an invalid file with its line and key, and keeps the agent's last valid
definition. The script of an offline model is read once. The worker also checks
all definitions together, as axe agents check does, and logs each finding.

A model is named provider/model. API keys come from the environment
(ANTHROPIC_API_KEY, OPENAI_API_KEY), base URLs from AXE_ANTHROPIC_BASE_URL,
AXE_OPENAI_BASE_URL and AXE_OLLAMA_BASE_URL. Both may also stand in config.toml
in $XDG_CONFIG_HOME/axe. script/NAME is an offline model: the file NAME.toml in
AXE_SCRIPT_DIR, or in the directory scripts/ below the agents.

With --http the process serves the HTTP API too, as axe ui does, with the rights
of the worker on the bus. With --metrics it serves /metrics for Prometheus, and
/healthz and /readyz for an orchestrator.

The streams keep a tree for --keep, then it is gone with all that belongs to it.
No tree may take longer. At the size of --keep-bytes no new tree begins until
there is room; running trees go on. Both hold for the bus: the last worker that
was started with one of them decides.

SIGTERM and SIGINT drain the worker: it takes no new work, waits for the model
calls in flight within the grace time, and leaves unfinished work to other
workers. A second signal ends the process at once.

Exit codes: 0 drained, 1 the bus cannot be used, 2 usage or a missing directory.`

	examples = `  # Everything on one machine: a NATS server inside, others may join it.
  agentd --agents ./agents --embedded

  # More workers on the same bus, here or elsewhere.
  agentd --agents ./agents --server nats://127.0.0.1:4222 --slots 8

  # A bus of your own: a context of the nats CLI, three replicas of each stream.
  agentd --agents /etc/axe/agents --context production --replicas 3

  # The HTTP API too.
  agentd --agents ./agents --embedded --http 127.0.0.1:9180

  # Metrics and probes.
  agentd --agents ./agents --embedded --metrics 127.0.0.1:9181

  # Keep trees for a month, and begin no new one from 20 GiB on.
  agentd --agents ./agents --embedded --keep 30d --keep-bytes 20GiB

  # Try agents with another model than their own.
  agentd --agents ./agents --embedded --model ollama/llama3.1`
)

// options holds the flags.
type options struct {
	dial     cli.DialFlags
	log      cli.LogFlags
	worker   cli.WorkerFlags
	embedded embedded
	http     web.Flags
	monitor  monitor
	lease    time.Duration
	replicas int
	keep     cli.KeepFlags
	// exitOnLostStream ends the process when a stream of runs is removed.
	exitOnLostStream bool
	// partitions is 0 to take the number of an existing bus, or 1.
	partitions int
}

func command() *cobra.Command {
	o := &options{
		lease:  bus.DefaultAckWait,
		worker: cli.WorkerFlags{Timeout: agentd.DefaultTimeout, Grace: agentd.DefaultGrace},
	}
	cmd := &cobra.Command{
		Use: name + " --agents DIR", Short: "Serve agents on NATS JetStream", Long: long, Example: examples,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	cli.RegisterAgents(cmd, &o.worker.Agents, "")
	flags.StringVar(&o.worker.Name, "name", "", "name of the worker in logs and outcomes (default HOST-PID)")
	flags.IntVar(&o.worker.ActiveAgents, "active-agents", agentd.DefaultActiveAgents,
		"number of agents beyond which the worker pulls only for those with work")
	flags.Var((*cli.Seconds)(&o.worker.Timeout), "timeout", "time limit of a submitted tree")
	flags.Var((*cli.Seconds)(&o.worker.Grace), "grace", "time that model calls in flight have when the worker drains")
	flags.Var((*cli.Seconds)(&o.lease), "ack-wait", "time until another worker takes over from a dead one")
	flags.IntVar(&o.replicas, "replicas", 1, "replicas of the streams, when the worker creates them")
	flags.IntVar(&o.partitions, "partitions", 0,
		"number of streams over which trees are spread, when the worker creates them (default 1)")
	o.keep.Register(cmd)
	// The name of --keep in earlier versions.
	flags.Var(&o.keep.Time, "max-age", "")
	_ = flags.MarkDeprecated("max-age", "use --keep") // the flag exists
	flags.BoolVar(&o.exitOnLostStream, "exit-on-lost-stream", false,
		"end with exit code 1 when a stream of runs is removed, instead of making the streams again")
	flags.StringVar(&o.worker.Model, "model", "", "provider/model for every agent, instead of its own (env AXE_MODEL)")
	o.worker.Register(cmd)
	o.embedded.register(cmd)
	o.http.Register(cmd, "")
	o.monitor.register(cmd)
	o.dial.Register(cmd)
	o.log.Register(cmd, "info")
	return cmd
}
