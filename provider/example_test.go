package provider_test

import (
	"errors"
	"fmt"

	"github.com/axebus/axe/provider"
)

// A tool call has its arguments as strings, and as the bytes that the model
// sent.
func ExampleNewToolCall() {
	arguments := []byte(`{"agent": "reviewer", "task": "look at PR 12", "lines": [1, 2]}`)
	c := provider.NewToolCall("call_1", "call_agent", arguments)
	fmt.Println(c.Arguments["agent"], c.Arguments["lines"])
	fmt.Println(string(c.RawArguments()))
	// Output:
	// reviewer [1, 2]
	// {"agent": "reviewer", "task": "look at PR 12", "lines": [1, 2]}
}

// A wrapped Error keeps its category.
func ExampleError() {
	err := fmt.Errorf("turn 3: %w", &provider.Error{Category: provider.RateLimit, Status: 429, Message: "slow down"})
	if e, ok := errors.AsType[*provider.Error](err); ok {
		fmt.Println(e.Category)
	}
	fmt.Println(err)
	// Output:
	// rate_limit
	// turn 3: rate_limit (HTTP 429): slow down
}
