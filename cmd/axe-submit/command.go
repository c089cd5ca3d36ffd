package main

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	name = "axe-submit"

	long = `

The commands "axe submit", "axe wait" and "axe cancel" are the same.

If an agent has the name of a subcommand (wait, cancel, help, completion), put
two dashes before it: axe-submit -- wait "the task".`
)

func command() *cobra.Command {
	f := &cli.SessionFlags{Name: name}
	cmd := cli.SubmitCommand(f, name)
	cmd.Long += long
	f.Register(cmd)
	f.RegisterProgress(cmd)
	cmd.AddCommand(cli.WaitCommand(f), cli.CancelCommand(f))
	return cmd
}
