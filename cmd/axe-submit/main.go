// Axe-submit hands a task to an agent on the bus and prints the answer.
package main

import (
	"os"

	"github.com/axebus/axe/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(command())) }
