package check

import (
	"fmt"
	"maps"
	"path"
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
	if slices.Contains(c.names, name) || c.elsewhere(Agent, name) {
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

// toolsets checks the names of tools of toolsets in a definition.
func (c *checker) toolsets(a configs.Agent) {
	for _, name := range a.Tools {
		set, tool, ok := configs.OfToolset(name)
		if !ok {
			continue
		}
		i := slices.IndexFunc(c.Toolsets, func(t configs.Toolset) bool { return t.Name == set })
		if i < 0 {
			c.toolset(a, set)
			continue
		}
		tools := slices.Sorted(maps.Keys(c.Toolsets[i].Tools))
		listed := c.Toolsets[i].Kind == configs.ToolsetMCP || c.Toolsets[i].Service != ""
		if listed || slices.ContainsFunc(tools, func(t string) bool { ok, _ := path.Match(tool, t); return ok }) {
			continue
		}
		text := fmt.Sprintf("the toolset %s has no tool %q", set, tool)
		if near := configs.Nearest(tools, tool); near != "" {
			text += fmt.Sprintf("; did you mean %q?", set+"/"+near)
		}
		c.add(a, "tools", Warning, "%s", text)
	}
}

// toolset notes a toolset that has no file here. It suggests the most similar
// name.
func (c *checker) toolset(a configs.Agent, set string) {
	severity := Error
	text := fmt.Sprintf("no toolset %q: its file would be tools/%s.toml", set, set)
	if c.Elsewhere != nil {
		severity = Warning
		text = fmt.Sprintf("no toolset %q here, and no worker announces it", set)
	}
	if c.elsewhere(Toolset, set) {
		return
	}
	names := make([]string, len(c.Toolsets))
	for i, t := range c.Toolsets {
		names[i] = t.Name
	}
	if near := configs.Nearest(names, set); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	c.add(a, "tools", severity, "%s", text)
}
