package prompt

import (
	"fmt"
	"strings"

	"github.com/axebus/axe/configs"
)

const separator = "\n\n---\n\n"

// Context has the parts of an agent's system text.
type Context struct {
	// System is the agent's own prompt.
	System string
	// Skill is the text of the agent's skill.
	Skill string
	// Files are the context files, sorted by path.
	Files []File
	// Memory is the text of the memory entries that the run is shown.
	// Resolve leaves it empty.
	Memory string
}

// Resolve reads an agent's skill and files. It bounds the bytes that it reads,
// and it reads no context file outside of the workdir. An error names the
// agent, the key, and the file, the pattern or the workdir.
func Resolve(a configs.Agent) (Context, error) {
	skill, err := ReadSkill(a.Skill)
	if err != nil {
		return Context{}, fmt.Errorf("agent %q: skill: %w", a.Name, err)
	}
	files, _, err := ReadFiles(a.Workdir, a.Files)
	if err != nil {
		return Context{}, fmt.Errorf("agent %q: files: %w", a.Name, err)
	}
	return Context{System: strings.TrimSpace(a.SystemPrompt), Skill: strings.TrimSpace(skill), Files: files}, nil
}

// Text returns the system text.
func (c Context) Text() string {
	var parts []string
	add := func(heading, text string) {
		if strings.TrimSpace(text) != "" {
			parts = append(parts, heading+text)
		}
	}
	add("", c.System)
	add("## Skill\n\n", c.Skill)
	add("## Context Files\n\n", blocks(c.Files))
	add("## Memory\n\n", strings.TrimSpace(c.Memory))
	return strings.Join(parts, separator)
}

// User returns the first user message of a run that another agent called. The
// context may be empty.
func User(task, context string) string {
	if context == "" {
		return "Task: " + task
	}
	return "Task: " + task + "\n\nContext:\n" + context
}

// RootUser returns the first user message of a run that gets its task as it is:
// a root, a fork, or a spawned run without a context. It is the input, or a
// fixed sentence for a blank input.
func RootUser(input string) string {
	if strings.TrimSpace(input) == "" {
		return "Execute the task described in your instructions."
	}
	return input
}
