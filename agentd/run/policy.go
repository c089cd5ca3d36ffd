package run

import (
	"slices"
	"strings"
)

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

// MayUse reports whether a tool may be used (ServedTool.FullName).
func (p Policy) MayUse(tool string) bool {
	return p.Tools == nil ||
		slices.ContainsFunc(p.Tools, func(permitted string) bool { return permits(permitted, tool) })
}

// permits reports whether an entry of a policy permits a tool, or every tool
// that another entry permits. The entry may have a * at its end.
func permits(entry, tool string) bool {
	beginning, open := strings.CutSuffix(entry, "*")
	return entry == tool || open && strings.Contains(entry, "/") && strings.HasPrefix(tool, beginning)
}

// common returns the names in both lists, in the order of the first and then of
// the second. A nil list has every name. Of two entries that permit some of the
// same tools, one permits all that the other one does.
func common(a, b []string) []string {
	switch {
	case a == nil:
		return slices.Clone(b)
	case b == nil:
		return slices.Clone(a)
	}
	both := []string{}
	add := func(names, within []string) {
		for _, x := range names {
			covered := slices.ContainsFunc(within, func(y string) bool { return permits(y, x) })
			if covered && !slices.Contains(both, x) {
				both = append(both, x)
			}
		}
	}
	add(a, b)
	add(b, a)
	return both
}
