package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Policy bounds the actions of an agent and of all runs below it. The policy of
// a called agent holds within the policies of its callers. A nil list bounds
// nothing. An empty list permits nothing.
type Policy struct {
	// Agents are the agents that may be called.
	Agents []string
	// Tools are the tools that may be used. A tool of a toolset is
	// "set/tool". "set/" and the beginning of a tool's name with a * at the
	// end permits all tools that begin so.
	Tools []string
}

// policyTools are the tools that a policy may name.
var policyTools = slices.Concat([]string{"call_agent", "spawn_agent", "spawn_agents"}, mailTools, builtinTools)

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
				return invalid("policy.tools", fmt.Sprintf("may have a * at the end alone, got %q", t))
			}
			continue
		}
		if !slices.Contains(policyTools, t) {
			known := strings.Join(policyTools, ", ")
			return invalid("policy.tools", fmt.Sprintf("must be some of %s, got %q", known, t))
		}
	}
	return nil
}
