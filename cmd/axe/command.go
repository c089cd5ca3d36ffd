package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	name = "axe"

	long = `axe run runs an agent and all agents that it calls, and prints the answer to stdout. The tree is shown on
stderr while it works, if that is a terminal.

Everything happens in this process: a NATS server that nobody else can reach, with a store that is removed
at the end, a worker that serves the agents of the directory, and a submission, by the same code as agentd and
axe-submit. With --server or --context a running bus is used instead, and its workers; with --agents too, this
process is one more of them. NATS_URL alone does not do that.

The text is the second argument, -p, a file (-f), or what is piped in. ^C cancels the tree.

Models are named provider/model. Keys come from the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY), base URLs
from AXE_ANTHROPIC_BASE_URL, AXE_OPENAI_BASE_URL and AXE_OLLAMA_BASE_URL. script/NAME is an offline model, the
file NAME.toml in AXE_SCRIPT_DIR, or in scripts/ below the agents.

Exit codes: 0 answered, 1 the agent failed, 2 usage, bad name, unknown agent or a wrong file, 3 the model's
provider failed or the time was over, 4 a limit on the tree, 5 cancelled, 130 ended by ^C.`

	examples = `  axe run lead --agents configs/examples "Review this repository's own files"
  git diff | axe run reviewer
  axe run reviewer -f task.md --model ollama/llama3.1 --timeout 10m
  axe run lead "Review this" -o json | jq .subtree
  axe run lead "Review this" --server nats://127.0.0.1:4222`
)

func command() *cobra.Command {
	root := &cobra.Command{
		Use: name, Short: "Run agents that call other agents",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(runCommand(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Println(name, cli.Version())
			return err
		},
	})
	return root
}

func runCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "run AGENT [TEXT]", Short: "Run an agent and print the answer", Long: long, Example: examples,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&o.worker.Agents, "agents", defaultAgents(), "directory of the agents, one TOML file each")
	flags.DurationVar(&o.timeout, "timeout", 120*time.Second, "the longest that the whole tree may take")
	flags.StringVarP(&o.prompt, "prompt", "p", "", "the text, in place of the argument")
	flags.StringVarP(&o.file, "file", "f", "", "file with the text, - for stdin")
	flags.StringVarP(&o.output, "output", "o", "text", "text: the answer; json: the whole outcome, failed or not")
	flags.BoolVar(&o.json, "json", false, "the same as -o json")
	o.worker.Register(cmd)
	o.dial.Register(cmd)
	o.log.Register(cmd, "warn")
	o.progress.Register(cmd)
	return cmd
}

// defaultAgents is where a person's agents are, empty if there is no home directory.
func defaultAgents() string {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "axe", "agents")
}
