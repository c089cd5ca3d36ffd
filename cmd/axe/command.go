package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
)

const (
	name = "axe"

	long = `Run an agent and all agents that it calls, and print the answer on stdout.
While the agents work, stderr shows the tree, if stderr is a terminal and the
answer does not go into a pipe.

Everything runs in this process: a NATS server that no other process can reach,
whose store is removed at the end; a worker that serves the agents of the
directory; and a submission. The code is the same as in agentd and axe submit.
With --server or --context the command uses a running bus and its workers
instead. With --agents as well, this process is one more worker on that bus.
The variables NATS_URL and AXE_AGENTS alone do neither.

The agents are in the directory of --agents, or else of AXE_AGENTS, or else in
axe/agents below the current directory, or else in agents/ of the config
directory. Only the first of these is read.

The task is the second argument, the value of -p, a file (-f), or the standard
input. Without a task the agent executes the task described in its instructions.
The command waits for another command of the same pipeline. It does not wait for
a standard input that stays open and silent. ^C cancels the tree.

--model, --skill and --workdir change AGENT only, not the agents that it calls.
AXE_MODEL changes the model of all agents.

A model is named provider/model. API keys come from the environment
(ANTHROPIC_API_KEY, OPENAI_API_KEY), base URLs from AXE_ANTHROPIC_BASE_URL,
AXE_OPENAI_BASE_URL and AXE_OLLAMA_BASE_URL. Both may also stand in config.toml
(see axe config init). script/NAME is an offline model: the file NAME.toml in
AXE_SCRIPT_DIR, or in the directory scripts/ below the agents.

-o json prints one line: model, content, input_tokens, output_tokens,
cached_tokens, stop_reason, duration_ms, model_ms, turns, tool_calls and
tool_call_details of the agent itself; subtree, the sums over the agent and all
agents below it; the tree's id; and error, kind and category of a failure.

Exit codes: see axe help exit-codes.`

	examples = `  axe run lead --agents configs/examples "Review this repository's own files"
  git diff | axe run reviewer "Focus on security"
  axe run reviewer -f task.md --model ollama/llama3.1 --timeout 10m
  axe run lead "Review this" -o json | jq .subtree
  axe run lead "Review this" --server nats://127.0.0.1:4222`
)

func command() *cobra.Command {
	root := group(&cobra.Command{Use: name, Short: "Run agents that call other agents"})
	root.AddCommand(agentsCommand(), configCommand(), exitCodesTopic(), deadCommand())
	root.AddCommand(treeCommand(submitCommand), treeCommand(cli.WaitCommand), treeCommand(cli.CancelCommand))
	root.AddCommand(psCommand(), showCommand(), topCommand(), logCommand(), diffCommand(), workersCommand(),
		uiCommand())
	root.AddCommand(sendCommand(), mailCommand(), treeCommand(cli.KillCommand))
	root.AddCommand(interruptCommand(), forkCommand(), pendingCommand(), approveCommand(), denyCommand())
	root.AddCommand(settleCommand(), answerCommand(), mcpCommand())
	root.AddCommand(authCommand(), busCommand(provisionCommand))
	root.AddCommand(toolsCommand(), artifactsCommand(), artifactCommand())
	root.AddCommand(statusCommand(), forgetCommand(), exportCommand(), importCommand(), probeCommand())
	root.AddCommand(runCommand(), verifyCommand(), gcCommand(), benchCommand(), benchPartCommand(), versionCommand())
	return root
}

func runCommand() *cobra.Command {
	o := &options{timeout: cli.Seconds(120 * time.Second)}
	cmd := &cobra.Command{
		Use: "run AGENT [TEXT]", Short: "Run an agent and print the answer", Long: long, Example: examples,
		Args: cli.AgentAndText, ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.cmd = cmd
	flags := cmd.Flags()
	registerAgents(cmd, &o.worker.Agents)
	flags.Var(&o.timeout, "timeout",
		"time limit of the whole tree: seconds, or a duration like 10m; the agent's timeout replaces the default")
	flags.StringVarP(&o.prompt, "prompt", "p", "", "the task, instead of the argument")
	flags.StringVarP(&o.file, "file", "f", "", "file with the task, or more of it; - for stdin")
	flags.StringVar(&o.change.model, "model", "", "provider/model, instead of the agent's own")
	flags.StringVar(&o.change.skill, "skill", "",
		"skill, instead of the agent's own: a file, a directory with a SKILL.md, or a name")
	flags.StringVar(&o.change.workdir, "workdir", "", "directory of the agent's files, instead of its own workdir")
	flags.BoolVar(&o.dry, "dry-run", false, "print the first request to the model, and send nothing")
	o.output.Register(cmd, "text: the answer; json: the answer and its usage on one line")
	o.limits.Register(cmd)
	o.artifacts.Register(cmd)
	o.worker.Register(cmd)
	o.dial.Register(cmd)
	o.log.Register(cmd, "warn")
	o.progress.Register(cmd)
	return cmd
}

// group makes a command of subcommands. Without one of them it prints its help.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.Args = cli.Subcommands
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subs...)
	return cmd
}

// busCommand adds the flags for a running bus to a command.
func busCommand(command func(*cli.SessionFlags) *cobra.Command) *cobra.Command {
	f := &cli.SessionFlags{Name: name}
	cmd := command(f)
	f.Register(cmd)
	return cmd
}

// treeCommand is a busCommand that may wait for a tree. It shows the tree
// meanwhile.
func treeCommand(command func(*cli.SessionFlags) *cobra.Command) *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		cmd := command(f)
		f.RegisterProgress(cmd)
		return cmd
	})
}

// submitCommand is the command of axe-submit.
func submitCommand(f *cli.SessionFlags) *cobra.Command { return cli.SubmitCommand(f, "submit") }

// registerAgents adds the flag for the directory of the agents to a command and
// all below it. The flag has the name of axe 1.8 too, --agents-dir.
func registerAgents(cmd *cobra.Command, dir *string) {
	cli.RegisterAgents(cmd, dir, defaultAgents())
	cmd.PersistentFlags().StringVar(dir, "agents-dir", *dir, "the same as --agents")
	cmd.PersistentFlags().Lookup("agents-dir").DefValue = ""
}

// agentsGiven reports whether the command line has the directory of the agents.
func agentsGiven(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("agents") || cmd.Flags().Changed("agents-dir")
}

// localAgents is the directory of the agents of a repository, below the current
// directory.
var localAgents = filepath.Join("axe", "agents")

// defaultAgents returns localAgents if it is a directory. Otherwise it returns
// the directory of the person's agents, "" if there is no home directory.
func defaultAgents() string {
	if info, err := os.Stat(localAgents); err == nil && info.IsDir() {
		return localAgents
	}
	dir, err := configs.ConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "agents")
}
