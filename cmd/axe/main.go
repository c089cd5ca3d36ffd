// Axe runs agents for a person at a shell.
package main

import (
	"os"

	"github.com/axebus/axe/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }
