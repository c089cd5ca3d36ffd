package configs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// validate returns the first error in the values of a.
func validate(a Agent) *Error {
	return cmp.Or(
		checkName(a),
		checkModel(a),
		checkAgents("sub_agents", a.SubAgents...),
		checkNumbers(a),
		checkLimits(a.Budget),
		checkDelegation(a),
		checkTools(
			a,
		),
		checkArtifacts(a),
		checkSandbox("sandbox", a.Sandbox),
		checkPolicy(a),
		checkParams(a),
		checkRetry(a),
		checkSupervision(a),
	)
}

func checkName(a Agent) *Error {
	want := NameOf(a.File)
	if a.Name == "" {
		return invalid("name", fmt.Sprintf("is required; this file defines the agent %q", want))
	}
	if err := checkAgents("name", a.Name); err != nil {
		return err
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

// checkAgents checks names of agents, the values of a key.
func checkAgents(key string, names ...string) *Error {
	for _, name := range names {
		if _, err := subjects.ParseAgent(name); err != nil {
			return invalid(key, err.Error())
		}
	}
	return nil
}

func checkParams(a Agent) *Error {
	if t := a.Params.Temperature; t != nil && !(0 <= *t && *t <= 2) {
		return invalid("params.temperature", "params.temperature must be between 0 and 2")
	}
	if !slices.Contains([]OnTruncated{"", WarnTruncated, FailTruncated}, a.Params.OnTruncated) {
		return invalid("params.on_truncated", "params.on_truncated must be one of: warn, fail")
	}
	return nil
}

// checkNumbers checks the bounds of all integers but those of checkLimits.
func checkNumbers(a Agent) *Error {
	for _, n := range []struct {
		key          string
		value, limit int
	}{
		{"timeout", a.Timeout, maxSeconds},
		{"sub_agents_config.max_depth", a.SubAgentsConf.MaxDepth, maxDepth},
		{"sub_agents_config.timeout", a.SubAgentsConf.Timeout, maxSeconds},
		{"delegation.max_batch", a.Delegation.MaxBatch, maxBatch},
		{"delegation.max_turns", a.Delegation.MaxTurns, maxTurns},
		{"params.max_tokens", a.Params.MaxTokens, math.MaxInt},
		{"memory.last_n", a.Memory.LastN, math.MaxInt},
		{"memory.max_entries", a.Memory.MaxEntries, math.MaxInt},
		{"retry.max_attempts", a.Retry.MaxAttempts, maxAttempts},
		// An int may be too small for a duration, so only the signs of
		// durations count here.
		{"retry.initial", cmp.Compare(a.Retry.Initial, 0), 1},
		{"retry.max", cmp.Compare(a.Retry.Max, 0), 1},
		{"supervision.timeout", cmp.Compare(a.Supervision.Timeout, 0), 1},
	} {
		if err := checkNumber(n.key, n.value, n.limit); err != nil {
			return err
		}
	}
	return nil
}

// maxSeconds bounds times in seconds.
const maxSeconds = int(subjects.MaxTimeout / time.Second)

func checkNumber(key string, value, limit int) *Error {
	switch {
	case value > limit:
		return invalid(key, fmt.Sprintf("%s cannot exceed %d", key, limit))
	case value < 0:
		return invalid(key, key+" must be non-negative")
	}
	return nil
}
