package main

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/cmd/internal/web"
)

const (
	uiLong = `Serve the web page and the HTTP API of a bus until a signal comes: submit tasks,
list trees, watch them as they change, and steer runs. The page is at / and
works without any other site. /v1/openapi.json describes the API. The command
runs no agents, and stores nothing: it reads the bus and writes to it with the
rights of its own user. Any number of them may run. agentd --http serves the
same.

Without --http-token the address has to be one of this machine, and every
program of this machine may use it. Requests of pages of other sites are
refused, and so are those to names of other hosts. With --http-token each
request needs a bearer token. Use a proxy for TLS, with --http-host for its
name.

Exit codes: 0 a signal came, 1 the bus or the address cannot be used, 2 usage.`

	uiExamples = `  axe ui --server nats://127.0.0.1:4222
  axe ui --context prod --http 0.0.0.0:9180 --http-token tokens
  axe ui --http-token tokens --http-host axe.example.com`

	// uiAddress is the default address of axe ui.
	uiAddress = "127.0.0.1:9180"
)

func uiCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		var http web.Flags
		cmd := &cobra.Command{
			Use: "ui", Short: "Serve the web page and the HTTP API of a bus", Long: uiLong, Example: uiExamples,
			Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if !http.Serves() {
					return cli.Usage("--http must not be empty")
				}
				if err := http.Check(); err != nil {
					return err
				}
				log, err := f.Logger()
				if err != nil {
					return err
				}
				return f.Use(cmd.Context(), func(ses *cli.Session) error {
					if err := http.Listen(cmd.Context(), name); err != nil {
						return err
					}
					return http.Serve(cmd.Context(), ses.Conn, log)
				})
			},
		}
		http.Register(cmd, uiAddress)
		return cmd
	})
}
