// Package cli is what the commands share: how they end, what they log, how they
// reach the bus, how a worker is put together, and how a tree is shown while it
// works.
//
// The invariant it keeps: results go to stdout and everything else to stderr, a
// failure is one line there, and the exit code says of which kind it is (see
// the constants).
//
//	func main() { os.Exit(cli.Main(command())) }
package cli
