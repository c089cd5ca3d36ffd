package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
)

// printNext prints commands that a person may want to give next.
func printNext(stderr io.Writer, commands ...string) {
	fmt.Fprintln(stderr, "Next:\n  "+strings.Join(commands, "\n  "))
}

// printNext prints the commands that set the key of a new agent, run the agent
// and change its file.
func (a *agentFiles) printNext(stderr io.Writer, agent configs.Agent) error {
	models, _, err := cli.Models(a.dir, 1, true, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	var commands []string
	if variable := models.MissingKey(agent.Model); variable != "" {
		commands = append(commands, "export "+variable+"=…")
	}
	flag := ""
	if a.dir != cli.AgentsDir(defaultAgents()) {
		flag = " --agents " + cli.Quoted(a.dir)
	}
	run := "axe run " + agent.Name + flag + ` "What can you do?"`
	printNext(stderr, append(commands, run, "axe agents edit "+agent.Name+flag)...)
	return nil
}
