package prompt

import (
	"fmt"
	"strings"

	"github.com/axebus/axe/configs"
)

const separator = "\n\n---\n\n"

// Context is what an agent's system text is made of.
type Context struct {
	System string // the agent's own prompt
	Skill  string // its text
	Files  []File // sorted by path
	// entries of the agent's memory; whoever keeps it puts them here
	Memory string
}

// Resolve reads an agent's skill and files. What is read is bounded, nothing
// outside the workdir is, and an error names the agent, the key and the file.
func Resolve(a configs.Agent) (Context, error) {
	skill, err := readSkill(a.Skill)
	if err != nil {
		return Context{}, fmt.Errorf("agent %q: skill: %w", a.Name, err)
	}
	files, err := readFiles(a.Workdir, a.Files)
	if err != nil {
		return Context{}, fmt.Errorf("agent %q: files: %w", a.Name, err)
	}
	return Context{System: strings.TrimSpace(a.SystemPrompt), Skill: strings.TrimSpace(skill), Files: files}, nil
}

// Text is the system text.
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

// User is the first user message of a run that another agent called.
func User(task, context string) string {
	if context == "" {
		return "Task: " + task
	}
	return "Task: " + task + "\n\nContext:\n" + context
}

// RootUser is the first user message of a tree's root: the input as it is, or a
// sentence in place of a blank one.
func RootUser(input string) string {
	if strings.TrimSpace(input) == "" {
		return "Execute the task described in your instructions."
	}
	return input
}
