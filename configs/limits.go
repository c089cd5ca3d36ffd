package configs

import (
	"maps"
	"slices"

	"github.com/axebus/axe/subjects"
)

// limits maps the keys of a budget to their variables. Agents and toolsets of
// the kind remote have these keys.
func limits(b *subjects.Budget) map[string]*int {
	return map[string]*int{
		"limits.max_agents":     &b.Agents,
		"limits.max_turns":      &b.Turns,
		"limits.max_tokens":     &b.Tokens,
		"limits.max_tool_calls": &b.ToolCalls,
	}
}

// addLimits adds the keys of a budget to those of a format.
func addLimits(all map[string]any, b *subjects.Budget) {
	for key, into := range limits(b) {
		all[key] = into
	}
}

// checkLimits checks the bounds of a budget.
func checkLimits(b subjects.Budget) *Error {
	values := limits(&b)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := checkNumber(key, *values[key], subjects.MaxLimit); err != nil {
			return err
		}
	}
	return nil
}
