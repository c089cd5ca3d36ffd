// Package memory keeps a log of an agent's finished runs, as Markdown that
// people read and edit. One entry of the log is exactly
//
//	## 2026-03-01T12:00:00Z
//	**Task:** the task, in one line
//	**Result:** the result,
//	with its line breaks
//	<an empty line>
//
// Each line that starts with "## " begins an entry, and no other line does.
// Text before the first entry belongs to no entry.
//
// The invariant: the text of a task or a result never leaves its own entry.
// Both are cut to 1000 characters. Every kind of line break becomes a newline
// in a result and a space in a task. In a result, a line that begins like
// Markdown with a meaning of its own gets a backslash: a heading, a separator,
// a fence or a part of an entry (see Entry.String). Writers that append at the
// same time lose nothing: each entry is stored once, whole.
//
// Two stores keep logs: Files on this machine, and a Bucket that many machines
// share.
//
//	log := memory.Files{Dir: dir}.Open(agent, "")
//	e := memory.Entry{Time: time.Now(), Task: task, Result: result}
//	err := log.Append(ctx, e)
//	text, err := log.Read(ctx)
//	recent := memory.Last(text, 10)
package memory
