// Package mcpclient carries out the tools of servers of the Model Context
// Protocol (MCP): programs that are reached by their standard input and output,
// and services that are reached by streamable HTTP. It is the only client side
// of the project that knows the protocol and its SDK.
//
// A Set has at most one connection, which all calls share. It is made at the
// first use. A connection that has ended is made anew at the next use, after a
// pause that grows while the server fails.
//
// The package keeps this invariant: a call whose request may have reached the
// server, and of which no answer came, ends with toolset.ErrLost. No other call
// does. An answer that the package does not understand is an error, and never
// an empty result.
//
//	set, err := mcpclient.Open(def, log)
//	if err != nil {
//		return err
//	}
//	defer set.Close()
//	tools, err := set.Tools(ctx)
package mcpclient
