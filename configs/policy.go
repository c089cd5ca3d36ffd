package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/subjects"
)

// Policy bounds what an agent, and all that work for it, may do: whoever is
// called has its own within it. A list that is not there bounds nothing, an
// empty one leaves nothing.
type Policy struct {
	Agents []string // that may be called
	Tools  []string // that may be used
}

// tools are those that a policy may name.
var tools = append([]string{"call_agent", "spawn_agent", "spawn_agents"}, mailTools...)

func checkPolicy(a Agent) *Error {
	for _, name := range a.Policy.Agents {
		if _, err := subjects.ParseAgent(name); err != nil {
			return invalid("policy.agents", err.Error())
		}
	}
	for _, t := range a.Policy.Tools {
		if !slices.Contains(tools, t) {
			return invalid(
				"policy.tools",
				fmt.Sprintf("%q is not known: want some of %s", t, strings.Join(tools, ", ")),
			)
		}
	}
	return nil
}
