package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

func versionCommand() *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, the commit and its date", Args: cobra.NoArgs,
		Long: "Print the version, the commit, the commit's date, the version of Go and the\n" +
			"platform. Agentd and axe-submit print the same line with --version. A part that\n" +
			"the go command did not record is unknown.",
		RunE: func(*cobra.Command, []string) error {
			build := cli.ReadBuild(name)
			if output.JSON() {
				return cli.PrintJSON(os.Stdout, build)
			}
			_, err := fmt.Println(name, "version", build)
			return err
		},
	}
	output.Register(cmd, "text: one line; json: one object")
	return cmd
}
