package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
)

const (
	name = "axe"

	long = `axe run runs an agent and all agents that it calls, and prints the answer to stdout. The tree is shown on
stderr while it works, if that is a terminal and the answer does not go into a pipe.

Everything happens in this process: a NATS server that nobody else can reach, with a store that is removed
at the end, a worker that serves the agents of the directory, and a submission, by the same code as agentd and
axe-submit. With --server or --context a running bus is used instead, and its workers; with --agents too, this
process is one more of them. NATS_URL alone does not do that.

The text is the second argument, -p, a file (-f), or what is piped in; without any, the agent is told to execute
the task described in its instructions. A command of the same pipeline is waited for; a standard input that was
only left open, and on which nothing comes, is not. ^C cancels the tree.

--model, --skill and --workdir are of AGENT alone, not of the agents that it calls; AXE_MODEL is of all.

Models are named provider/model. Keys come from the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY), base URLs
from AXE_ANTHROPIC_BASE_URL, AXE_OPENAI_BASE_URL and AXE_OLLAMA_BASE_URL, both otherwise from config.toml (see axe
config init). script/NAME is an offline model, the file NAME.toml in AXE_SCRIPT_DIR, or in scripts/ below the agents.

--json prints one line: model, content, input_tokens, output_tokens, cached_tokens, stop_reason, duration_ms, model_ms,
turns, tool_calls and tool_call_details of the agent itself, subtree with the sums of all agents below it too, the tree's
id, and for a failure its error, kind and category.

Exit codes: see axe help exit-codes.`

	examples = `  axe run lead --agents configs/examples "Review this repository's own files"
  git diff | axe run reviewer
  axe run reviewer -f task.md --model ollama/llama3.1 --timeout 10m
  axe run lead "Review this" --json | jq .subtree
  axe run lead "Review this" --server nats://127.0.0.1:4222`
)

func command() *cobra.Command {
	root := &cobra.Command{
		Use: name, Short: "Run agents that call other agents",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(agentsCommand(), configCommand(), exitCodesTopic(), endCommand(cli.CancelCommand), deadCommand())
	root.AddCommand(sendCommand(), mailCommand(), endCommand(cli.KillCommand))
	root.AddCommand(interruptCommand(), forkCommand(), pendingCommand(), approveCommand(), denyCommand())
	root.AddCommand(runCommand(), verifyCommand(), gcCommand(), benchCommand(), benchPartCommand(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Println(name, "version", cli.Version())
			return err
		},
	})
	return root
}

func runCommand() *cobra.Command {
	o := &options{timeout: cli.Seconds(120 * time.Second)}
	cmd := &cobra.Command{
		Use: "run AGENT [TEXT]", Short: "Run an agent and print the answer", Long: long, Example: examples,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&o.worker.Agents, "agents", defaultAgents(), "directory of the agents, one TOML file each")
	flags.Var(&o.timeout, "timeout", "the longest that the whole tree may take: seconds, or a duration like 10m")
	flags.StringVarP(&o.prompt, "prompt", "p", "", "the text, in place of the argument")
	flags.StringVarP(&o.file, "file", "f", "", "file with the text, - for stdin")
	flags.StringVar(&o.change.model, "model", "", "provider/model in place of the agent's own")
	flags.StringVar(
		&o.change.skill,
		"skill",
		"",
		"skill in place of the agent's own: a file, a directory with a SKILL.md, or a name",
	)
	flags.StringVar(
		&o.change.workdir,
		"workdir",
		"",
		"where the agent's files are looked for, in place of its own workdir",
	)
	flags.BoolVar(&o.dry, "dry-run", false, "show what the model would be sent, and send nothing")
	flags.BoolVar(&o.json, "json", false, "print the answer with what it took, as one line of JSON")
	o.limits.Register(cmd)
	o.worker.Register(cmd)
	o.dial.Register(cmd)
	o.log.Register(cmd, "warn")
	o.progress.Register(cmd)
	return cmd
}

// busCommand is a command that needs no more than a running bus, with the flags
// for that.
func busCommand(command func(*cli.SessionFlags) *cobra.Command) *cobra.Command {
	f := &cli.SessionFlags{Name: name}
	cmd := command(f)
	f.Register(cmd)
	return cmd
}

// endCommand is one that may wait until a tree has ended, and shows it
// meanwhile.
func endCommand(command func(*cli.SessionFlags) *cobra.Command) *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		cmd := command(f)
		f.RegisterProgress(cmd)
		return cmd
	})
}

// defaultAgents is where a person's agents are, empty if there is no home
// directory.
func defaultAgents() string {
	dir, err := configs.ConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "agents")
}
