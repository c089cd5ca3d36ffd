// Package prompt makes the texts that a run starts with. The system text comes
// from an agent's definition, and the first user message from a task.
//
// The system text has up to four parts, separated by a line of three dashes.
// Empty parts are left out:
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
// A fence is longer than any run of backticks in its content, so that the text
// of a file cannot end its block. This layout is a contract: the offline model
// of package script reads the files back from it.
//
// Files are found through os.Root: no pattern and no symbolic link leads out of
// an agent's workdir. A file with a second hard link is not read, because the
// link may be outside of the workdir.
package prompt
