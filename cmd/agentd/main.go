// Agentd is a worker: it serves the agents of a directory on the bus.
package main

import (
	"os"

	"github.com/axebus/axe/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }
