// Package cli is shared by the commands: flags, the connection to the bus, the
// worker of a process, logging, exit codes, and the view of a tree that works.
//
// The invariant it keeps: results go to stdout and everything else goes to
// stderr. A failure is one line on stderr. The hint of a failed outcome is one
// more. The exit code tells the failure's kind (see the constants).
//
//	func main() { os.Exit(cli.Main(command())) }
package cli
