// Package prompt makes the texts that a run starts with: the system text out of
// an agent's definition, and the first user message out of a task.
//
// The system text has up to four parts, separated by a line of three dashes; an
// empty part is left out:
//
//	<system_prompt>
//
//	---
//
//	## Skill
//
//	<the skill's text>
//
//	---
//
//	## Context Files
//
//	### <path, relative to the workdir>
//	```<language>
//	<content>
//	```
//
//	---
//
//	## Memory
//
//	<entries>
//
// A fence is longer than any run of backticks in its content, so what a file
// says cannot end its block. This layout is a contract: the offline model of
// package script reads the files back from it.
//
// Files are found through os.Root: no pattern, and no symbolic link, leads out
// of an agent's workdir. A file with a second hard link is not read, since
// nobody can tell where that is.
package prompt
