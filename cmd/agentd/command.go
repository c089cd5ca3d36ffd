package main

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	name = "agentd"

	long = `agentd is a worker. It serves every agent that has a TOML file in a directory: tasks for them come over
NATS JetStream, from axe-submit, from other agents or from any publisher, and any worker takes any turn of any
agent that it serves. Start as many as you like; one that dies loses nothing.

Files that are added, changed or removed are picked up without a restart. One that is wrong is logged with its
line and key, and the agent keeps its last good definition. A script of an offline model is read once.

Models are named provider/model. Keys come from the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY), base URLs
from AXE_ANTHROPIC_BASE_URL, AXE_OPENAI_BASE_URL and AXE_OLLAMA_BASE_URL, both otherwise from config.toml in
$XDG_CONFIG_HOME/axe. script/NAME is an offline model, the file NAME.toml in AXE_SCRIPT_DIR, or in scripts/ below
the agents.

SIGTERM and SIGINT drain: no new work is taken, model calls in flight end within the grace time, what is
unfinished goes to other workers. A second signal ends the process at once.

Exit codes: 0 drained, 1 the bus cannot be used, 2 usage or a directory that is not there.`

	examples = `  # Everything on one machine: a NATS server inside, others may join it.
  agentd --agents ./agents --embedded

  # More workers on the same bus, here or elsewhere.
  agentd --agents ./agents --server nats://127.0.0.1:4222 --slots 8

  # A bus of your own: a context of the nats CLI, three replicas of every stream.
  agentd --agents /etc/axe/agents --context production --replicas 3

  # Try agents with another model than their own.
  agentd --agents ./agents --embedded --model ollama/llama3.1`
)

// options are the flags.
type options struct {
	dial     cli.DialFlags
	log      cli.LogFlags
	worker   cli.WorkerFlags
	embedded embedded
	lease    bus.Config // AckWait alone
	replicas int
	spread   int // partitions
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: name + " --agents DIR", Short: "Serve agents on NATS JetStream", Long: long, Example: examples,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.worker.Agents, "agents", "", "directory of the agents, one TOML file each")
	flags.StringVar(&o.worker.Name, "name", "", "name of the worker in logs and outcomes (default HOST-PID)")
	flags.DurationVar(&o.worker.Timeout, "timeout", agentd.DefaultTimeout, "the longest that a submitted tree may take")
	flags.DurationVar(
		&o.worker.Grace,
		"grace",
		agentd.DefaultGrace,
		"what model calls in flight get when the worker drains",
	)
	flags.DurationVar(
		&o.lease.AckWait,
		"ack-wait",
		bus.DefaultAckWait,
		"how long another worker waits before it takes over from one that died",
	)
	flags.IntVar(&o.replicas, "replicas", 1, "replicas of the streams where they do not exist yet")
	flags.IntVar(
		&o.spread,
		"partitions",
		0,
		"streams that the trees are spread over, where they do not exist yet (default 1; the first worker decides)",
	)
	flags.StringVar(&o.worker.Model, "model", "", "provider/model in place of every agent's own (env AXE_MODEL)")
	o.worker.Register(cmd)
	o.embedded.register(cmd)
	o.dial.Register(cmd)
	o.log.Register(cmd, "info")
	if err := cmd.MarkFlagRequired("agents"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
