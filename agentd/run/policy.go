package run

import "slices"

// Policy bounds what a run and all below it may do. A nil list bounds nothing,
// an empty one leaves nothing.
type Policy struct {
	Agents []string `json:"agents,omitzero"` // that may be called
	// that may be used, but those that end a run
	Tools []string `json:"tools,omitzero"`
}

// IsZero reports whether a policy bounds nothing.
func (p Policy) IsZero() bool { return p.Agents == nil && p.Tools == nil }

// Within is what both policies leave: it can only be less.
func (p Policy) Within(above Policy) Policy {
	return Policy{common(p.Agents, above.Agents), common(p.Tools, above.Tools)}
}

// MayCall reports whether an agent may be called.
func (p Policy) MayCall(agent string) bool {
	return p.Agents == nil || slices.Contains(p.Agents, agent)
}

// MayUse reports whether a tool may be used.
func (p Policy) MayUse(tool string) bool { return p.Tools == nil || slices.Contains(p.Tools, tool) }

// common is what is in both lists, in the order of the first.
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
