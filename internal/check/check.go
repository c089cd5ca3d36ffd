package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider/catalog"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Error is about a definition that cannot be carried out.
	Error Severity = "error"
	// Warning is about a definition that may not do what its author wants.
	Warning Severity = "warning"
)

// Finding is one mistake.
type Finding struct {
	// Agent is the name of the agent or the toolset that the file defines.
	Agent string `json:"agent"`
	File  string `json:"file"`
	// Line is 0 if it is not known.
	Line int `json:"line,omitzero"`
	// Key is the dotted key of the file. It is empty if the finding
	// concerns no single key.
	Key      string   `json:"key,omitzero"`
	Severity Severity `json:"severity"`
	// Text says what is wrong, and what would be right.
	Text string `json:"text"`
}

// String returns "file:line: key: text", without the unknown parts.
func (f Finding) String() string {
	return (&configs.Error{File: f.File, Line: f.Line, Key: f.Key, Message: f.Text}).Error()
}

// Invalid returns the finding about a file that configs has refused.
func Invalid(e *configs.Error) Finding {
	return Finding{
		Agent: configs.NameOf(e.File), File: e.File, Line: e.Line, Key: e.Key, Severity: Error, Text: e.Message,
	}
}

// Config says what a check knows of the world. Its zero value knows the
// definitions alone.
type Config struct {
	// Models opens the models. With nil no model is checked.
	Models *catalog.Catalog
	// Model replaces the model of every agent. Empty replaces none.
	Model string
	// Known are the names of more agents that exist. They are not checked.
	Known []string
	// Toolsets are the toolsets that exist.
	Toolsets []configs.Toolset
	// Elsewhere reports whether another worker serves an agent or a toolset
	// with a name. With nil there is no other worker, and an unknown
	// sub-agent, supervisor or toolset is an Error in place of a Warning.
	Elsewhere func(name string) (Kind, bool)
}

// Kind tells agents and toolsets apart.
type Kind string

// The kinds.
const (
	Agent   Kind = "agent"
	Toolset Kind = "toolset"
)

// elsewhere reports whether another worker serves an agent, or a toolset.
func (c *Config) elsewhere(kind Kind, name string) bool {
	if c.Elsewhere == nil {
		return false
	}
	found, ok := c.Elsewhere(name)
	return ok && found == kind
}

// checker is one check of a set of definitions.
type checker struct {
	Config
	agents map[string]configs.Agent
	// callers has for each agent the other agents that may call it.
	callers map[string][]string
	// names are the agents that exist, sorted.
	names    []string
	findings []Finding
}

// Agents checks definitions together. It returns the findings in the order of
// the agents' names.
func Agents(agents []configs.Agent, cfg Config) []Finding {
	c := &checker{
		Config: cfg, names: slices.Clone(cfg.Known),
		agents: map[string]configs.Agent{}, callers: map[string][]string{},
	}
	agents = slices.Clone(agents)
	slices.SortFunc(agents, func(a, b configs.Agent) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range agents {
		c.agents[a.Name] = a
		c.names = append(c.names, a.Name)
		for _, callee := range callees(a) {
			if callee == a.Name {
				continue
			}
			c.callers[callee] = append(c.callers[callee], a.Name)
		}
	}
	slices.Sort(c.names)
	for _, a := range agents {
		c.model(a)
		c.skill(a)
		c.files(a)
		c.inert(a)
		c.references(a)
		c.toolsets(a)
		c.description(a)
	}
	c.cycles(agents)
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return cmp.Compare(a.Agent, b.Agent) })
	return c.findings
}

// add notes a finding about a key of an agent.
func (c *checker) add(a configs.Agent, key string, s Severity, format string, args ...any) {
	c.findings = append(c.findings, Finding{
		Agent: a.Name, File: a.File, Key: key, Severity: s, Text: fmt.Sprintf(format, args...),
	})
}

// inert warns of keys that have no effect.
func (c *checker) inert(a configs.Agent) {
	for _, key := range a.Inert {
		c.add(a, key, Warning, "has no effect in this version: %s", cmp.Or(map[string]string{
			"stream":                 "the answer is printed when it is complete",
			"params.response_format": "describe the format in system_prompt",
		}[key], "remove it"))
	}
}

// Below returns an agent and the agents that may work in a tree with this agent
// as its root: sub-agents and supervisors, on all levels.
func Below(root configs.Agent, agents []configs.Agent) []configs.Agent {
	found := []configs.Agent{root}
	for i := 0; i < len(found); i++ {
		for _, name := range append(callees(found[i]), found[i].Supervision.Agent) {
			named := func(a configs.Agent) bool { return a.Name == name }
			if at := slices.IndexFunc(agents, named); at >= 0 && !slices.ContainsFunc(found, named) {
				found = append(found, agents[at])
			}
		}
	}
	return found
}

// callees returns the agents that an agent may call by name, each once.
func callees(a configs.Agent) []string {
	return slices.Compact(slices.Sorted(slices.Values(a.SubAgents)))
}

// description warns of an agent without a description, if other agents may call
// it. Their models choose an agent by its description.
func (c *checker) description(a configs.Agent) {
	if callers := c.callers[a.Name]; len(callers) > 0 && strings.TrimSpace(a.Description) == "" {
		c.add(a, "description", Warning, "is empty: the models of its callers (%s) read it to choose an agent",
			strings.Join(callers, ", "))
	}
}
