package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// agentFiles is a directory of agent files, for the commands that list, show,
// create and edit them.
type agentFiles struct{ dir string }

func agentsCommand() *cobra.Command {
	a := &agentFiles{}
	cmd := group(&cobra.Command{Use: "agents", Short: "Manage agent configurations"},
		agentsListCommand(a),
		&cobra.Command{
			Use: "show AGENT", Short: "Show an agent's configuration",
			Args: cobra.ExactArgs(1), ValidArgsFunction: completeAgents,
			RunE: func(cmd *cobra.Command, args []string) error { return a.show(cmd.OutOrStdout(), args[0]) },
		},
		&cobra.Command{
			Use: "init AGENT", Short: "Write the file of a new agent",
			Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.init(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0])
			},
		},
		&cobra.Command{
			Use: "edit AGENT", Short: "Open an agent's file in an editor",
			Args: cobra.ExactArgs(1), ValidArgsFunction: completeAgents,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.edit(cmd.Context(), cmd.ErrOrStderr(), args[0])
			},
		},
		checkCommand(a), agentsStatsCommand(),
	)
	registerAgents(cmd, &a.dir)
	return cmd
}

// show prints the configuration of one agent.
func (a *agentFiles) show(stdout io.Writer, arg string) error {
	if _, err := a.file(arg); err != nil {
		return err
	}
	agent, err := cli.FindAgent(a.dir, arg)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, describe(agent))
	return err
}

// init writes the file of a new agent, and says on stderr how to run the agent.
// It never overwrites a file.
func (a *agentFiles) init(stdout, stderr io.Writer, arg string) error {
	file, err := a.file(arg)
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	made, err := create(file, configs.Scaffold(arg), 0o755, 0o644)
	if err != nil {
		return err
	}
	if !made {
		return cli.Fail(cli.CodeConfig, fmt.Errorf("agent config already exists: %s", file))
	}
	if _, err = fmt.Fprintln(stdout, file); err != nil {
		return err
	}
	agent, err := configs.Load(file)
	if err != nil {
		return err
	}
	return a.printNext(stderr, agent)
}

// requireAgentsDir returns an error if --agents is not set and has no default.
func requireAgentsDir(dir string) error {
	if dir == "" {
		return cli.Usage("--agents is required: there is no home directory to take a default from")
	}
	return nil
}

// file returns the path of an agent's file, which may not exist.
func (a *agentFiles) file(arg string) (string, error) {
	if err := requireAgentsDir(a.dir); err != nil {
		return "", err
	}
	agent, err := subjects.ParseAgent(arg)
	return filepath.Join(a.dir, agent.String()+".toml"), err
}

// warn prints a warning. The command goes on.
func warn(stderr io.Writer, err error) { fmt.Fprintf(stderr, "%s: warning: %v\n", name, err) }

// summary returns a description on one line.
func summary(description string) string { return strings.Join(strings.Fields(description), " ") }

// completeAgents completes a command's first argument with the agents of the
// --agents directory. Agents with an invalid file are offered too; the command
// then reports the error.
func completeAgents(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dir, err := cmd.Flags().GetString("agents")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	agents, err := cli.AllAgents(dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, agent := range agents {
		if strings.HasPrefix(agent.Name, begun) {
			names = append(names, cobra.CompletionWithDesc(agent.Name, summary(agent.Description)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
