package prompt

import (
	"fmt"
	"strings"

	"github.com/axebus/axe/configs"
)

const separator = "\n\n---\n\n"

// System reads an agent's skill and files and returns its system text. What is read is bounded, nothing
// outside the workdir is, and an error names the agent, the key and the file.
func System(a configs.Agent) (string, error) {
	skill, err := readSkill(a.Skill)
	if err != nil {
		return "", fmt.Errorf("agent %q: skill: %w", a.Name, err)
	}
	files, err := readFiles(a.Workdir, a.Files)
	if err != nil {
		return "", fmt.Errorf("agent %q: files: %w", a.Name, err)
	}
	var parts []string
	add := func(heading, text string) {
		if strings.TrimSpace(text) != "" {
			parts = append(parts, heading+text)
		}
	}
	add("", strings.TrimSpace(a.SystemPrompt))
	add("## Skill\n\n", strings.TrimSpace(skill))
	add("## Context Files\n\n", blocks(files))
	return strings.Join(parts, separator), nil
}

// User is the first user message of a run that another agent called.
func User(task, context string) string {
	if context == "" {
		return "Task: " + task
	}
	return "Task: " + task + "\n\nContext:\n" + context
}

// RootUser is the first user message of a tree's root: the input as it is, or a sentence in place of a
// blank one.
func RootUser(input string) string {
	if strings.TrimSpace(input) == "" {
		return "Execute the task described in your instructions."
	}
	return input
}
