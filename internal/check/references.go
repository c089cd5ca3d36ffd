package check

import (
	"fmt"
	"slices"

	"github.com/axebus/axe/configs"
)

// references checks the names of other agents in a definition.
func (c *checker) references(a configs.Agent) {
	severity := Error
	if c.Elsewhere != nil {
		severity = Warning
	}
	for _, name := range callees(a) {
		c.reference(a, "sub_agents", name, severity)
	}
	s := a.Supervision.WithDefaults()
	if s.Mode != configs.Unsupervised {
		c.reference(a, "supervision.agent", s.Agent, severity)
	}
	// A name that no agent has permits nothing, which harms no run.
	for _, name := range a.Policy.Agents {
		c.reference(a, "policy.agents", name, Warning)
	}
}

// reference notes a name that no agent has. It suggests the most similar one.
func (c *checker) reference(a configs.Agent, key, name string, s Severity) {
	if slices.Contains(c.names, name) || c.Elsewhere != nil && c.Elsewhere(name) {
		return
	}
	text := fmt.Sprintf("no agent %q", name)
	if c.Elsewhere != nil {
		text += " here, and no worker announces it"
	}
	if key == "supervision.agent" {
		text += ": the turns of " + a.Name + " are withheld"
	}
	others := slices.DeleteFunc(slices.Clone(c.names), func(other string) bool { return other == a.Name })
	if near := configs.Nearest(others, name); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	c.add(a, key, s, "%s", text)
}
