package run

import "slices"

// Policy restricts a run and all runs below it. A nil list restricts nothing,
// an empty list permits nothing.
type Policy struct {
	// Agents names the agents that may be called.
	Agents []string `json:"agents,omitzero"`
	// Tools names the tools that may be used. The tools that end a run
	// always may.
	Tools []string `json:"tools,omitzero"`
}

// IsZero reports whether the policy restricts nothing.
func (p Policy) IsZero() bool { return p.Agents == nil && p.Tools == nil }

// Within returns the policy of both together: it permits an agent or a tool
// only if each of them does.
func (p Policy) Within(above Policy) Policy {
	return Policy{common(p.Agents, above.Agents), common(p.Tools, above.Tools)}
}

// MayCall reports whether an agent may be called.
func (p Policy) MayCall(agent string) bool {
	return p.Agents == nil || slices.Contains(p.Agents, agent)
}

// MayUse reports whether a tool may be used.
func (p Policy) MayUse(tool string) bool { return p.Tools == nil || slices.Contains(p.Tools, tool) }

// common returns the names in both lists, in the order of the first. A nil list
// has every name.
func common(a, b []string) []string {
	switch {
	case a == nil:
		return slices.Clone(b)
	case b == nil:
		return slices.Clone(a)
	}
	both := []string{}
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}
