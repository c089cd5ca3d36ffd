// Package mcpserver offers the agents of a bus as tools of the Model Context
// Protocol. It is the server behind axe mcp. A host, such as an editor, lists
// one tool for each agent. A call of a tool submits a task, and its result is
// the outcome of the tree.
//
// The package keeps one invariant: it has no state that matters. A tree lives
// on the bus. So the server may end at any time, a call may be made again with
// the id of its tree, and the tree never runs twice. Only a cancellation by the
// client ends a tree early: a client that is lost does not.
//
//	s, err := mcpserver.New(mcpserver.Config{Conn: conn})
//	...
//	err = s.ServePipe(ctx, os.Stdin, os.Stdout)
package mcpserver
