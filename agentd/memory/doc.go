// Package memory keeps what an agent has done: a log of its finished runs, as
// Markdown that people read and edit. An entry of it is exactly
//
//	## 2026-03-01T12:00:00Z
//	**Task:** what was asked, in one line
//	**Result:** what was answered,
//	with its line breaks
//	<an empty line>
//
// Entries begin at the lines that start with "## ", and nowhere else; what
// stands before the first of them is none. The invariant: what a task or a
// result says is part of its own entry, and of nothing else. Both are cut to
// 1000 characters, every kind of line break is a newline, and in a result a
// line that begins like something with a meaning of its own, a heading, a
// separator, a fence or a part of an entry, is given a backslash (see Entry).
// Whoever appends at the same time loses nothing: each entry is there, whole,
// once.
//
// Two stores keep logs: Files on this machine, and a Bucket that many machines
// share.
//
//	log := memory.Files{Dir: dir}.Open(agent, "")
//	err := log.Append(ctx, memory.Entry{Time: time.Now(), Task: task, Result: result})
//	text, err := log.Read(ctx)
//	recent := memory.Last(text, 10)
package memory
