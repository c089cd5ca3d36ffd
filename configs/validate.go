package configs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/axebus/axe/subjects"
)

// validate returns the first error in the values of a.
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
		const format = "is %q, but an agent is named after its file: rename the file to %s.toml, or the agent to %q"
		return invalid("name", fmt.Sprintf(format, a.Name, a.Name, want))
	}
	return nil
}

// checkModel does not check the form of the name, which is left to the worker
// that opens the model. An agent with an unusable model can still be called,
// and the caller gets the error.
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
	depth := setting{"sub_agents_config.max_depth", a.SubAgentsConf.MaxDepth}
	timeout := setting{"sub_agents_config.timeout", a.SubAgentsConf.Timeout}
	return cmp.Or(depth.atMost(maxDepth), nonNegative(depth, timeout))
}

func checkBudget(a Agent) *Error {
	bounds := []setting{
		{"limits.max_agents", a.Budget.Agents},
		{"limits.max_turns", a.Budget.Turns},
		{"limits.max_tokens", a.Budget.Tokens},
	}
	for _, b := range bounds {
		if err := b.atMost(subjects.MaxLimit); err != nil {
			return err
		}
	}
	return nonNegative(bounds...)
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

// setting is the number that a file has set for a key.
type setting struct {
	key   string
	value int
}

func (s setting) atMost(limit int) *Error {
	if s.value > limit {
		return invalid(s.key, fmt.Sprintf("%s cannot exceed %d", s.key, limit))
	}
	return nil
}

func nonNegative(settings ...setting) *Error {
	for _, s := range settings {
		if s.value < 0 {
			return invalid(s.key, s.key+" must be non-negative")
		}
	}
	return nil
}
