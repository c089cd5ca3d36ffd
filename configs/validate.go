package configs

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/axebus/axe/subjects"
)

// validate returns the first thing that is wrong with a's values.
func validate(a Agent) *Error {
	checks := []func(Agent) *Error{
		checkName,
		checkModel,
		checkSubAgents,
		checkDelegation,
		checkPolicy,
		checkBudget,
		checkParams,
		checkMemory,
		checkRetry,
		checkSupervision,
	}
	for _, check := range checks {
		if err := check(a); err != nil {
			return err
		}
	}
	return nil
}

func checkName(a Agent) *Error {
	want := strings.TrimSuffix(filepath.Base(a.File), ".toml")
	if a.Name == "" {
		return invalid("name", fmt.Sprintf("is required; this file defines the agent %q", want))
	}
	if _, err := subjects.ParseAgent(a.Name); err != nil {
		return invalid("name", err.Error())
	}
	if a.Name != want {
		return invalid(
			"name",
			fmt.Sprintf(
				"is %q, but an agent is named after its file: rename the file to %s.toml, or the agent to %q",
				a.Name,
				a.Name,
				want,
			),
		)
	}
	return nil
}

// checkModel leaves the form of the name to whoever opens the model: an agent
// that cannot be run can still be called, and its caller is told why.
func checkModel(a Agent) *Error {
	if strings.TrimSpace(a.Model) == "" {
		return invalid("model", "is required, as provider/model")
	}
	return nil
}

func checkSubAgents(a Agent) *Error {
	for _, name := range a.SubAgents {
		if _, err := subjects.ParseAgent(name); err != nil {
			return invalid("sub_agents", err.Error())
		}
	}
	if a.SubAgentsConf.MaxDepth > maxDepth {
		return invalid(
			"sub_agents_config.max_depth",
			fmt.Sprintf("sub_agents_config.max_depth cannot exceed %d", maxDepth),
		)
	}
	return nonNegative(
		setting{"sub_agents_config.max_depth", a.SubAgentsConf.MaxDepth},
		setting{"sub_agents_config.timeout", a.SubAgentsConf.Timeout},
	)
}

func checkBudget(a Agent) *Error {
	limits := []setting{
		{
			"limits.max_agents",
			a.Budget.Agents,
		}, {"limits.max_turns", a.Budget.Turns}, {"limits.max_tokens", a.Budget.Tokens},
	}
	for _, l := range limits {
		if l.value > subjects.MaxLimit {
			return invalid(l.key, fmt.Sprintf("%s cannot exceed %d", l.key, subjects.MaxLimit))
		}
	}
	return nonNegative(limits...)
}

func checkParams(a Agent) *Error {
	if t := a.Params.Temperature; t != nil && !(0 <= *t && *t <= 2) {
		return invalid("params.temperature", "params.temperature must be between 0 and 2")
	}
	return nonNegative(setting{"params.max_tokens", a.Params.MaxTokens})
}

func checkMemory(a Agent) *Error {
	return nonNegative(setting{"memory.last_n", a.Memory.LastN}, setting{"memory.max_entries", a.Memory.MaxEntries})
}

// setting is a number that a key may set to zero or more.
type setting struct {
	key   string
	value int
}

func nonNegative(limits ...setting) *Error {
	for _, l := range limits {
		if l.value < 0 {
			return invalid(l.key, l.key+" must be non-negative")
		}
	}
	return nil
}
