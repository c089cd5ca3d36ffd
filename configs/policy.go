package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Policy restricts the runs of an agent and all runs below them. A run may do
// only what its own policy and the policies of all runs above it permit. A nil
// list restricts nothing. An empty list permits nothing.
type Policy struct {
	// Agents are the agents that may be called.
	Agents []string
	// Tools are the tools that may be used. The entry "set/tool" permits a
	// tool of a toolset. A * at its end permits more: "set/read*" permits
	// every tool of set with a name that begins with read.
	Tools []string
}

// policyTools are the tools that a policy may name without a toolset.
var policyTools = slices.Concat([]string{"call_agent", "spawn_agent", "spawn_agents"}, mailTools, builtinTools)

// checkPolicy checks the form of the names. The agents and the toolsets need
// not exist.
func checkPolicy(a Agent) *Error {
	if err := checkAgents("policy.agents", a.Policy.Agents...); err != nil {
		return err
	}
	for _, t := range a.Policy.Tools {
		if set, tool, ok := OfToolset(t); ok {
			if err := checkToolsetTool("policy.tools", set, tool); err != nil {
				return err
			}
			if strings.ContainsAny(strings.TrimSuffix(tool, "*"), `*?[\`) {
				return invalid("policy.tools", fmt.Sprintf(`may have one * at its end, and no ?, [ or \, got %q`, t))
			}
			continue
		}
		if !slices.Contains(policyTools, t) {
			known := strings.Join(policyTools, ", ")
			return invalid("policy.tools", fmt.Sprintf(`must be some of %s, and "toolset/tool", got %q`, known, t))
		}
	}
	return nil
}
