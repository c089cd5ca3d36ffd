package tool_test

import (
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// A model calls three agents in one turn. The second one is not among the run's
// sub-agents. Of the others one answers, and one is too slow.
func Example() {
	caller := tool.Caller{
		Start:   &run.Start{SubAgents: []string{"reviewer", "tester"}, MaxDepth: 3},
		Offered: []string{"call_agent"},
	}
	answer := &provider.Response{ToolCalls: []provider.ToolCall{
		provider.NewToolCall("c1", "call_agent", []byte(`{"agent":"reviewer","task":"look at PR 12"}`)),
		provider.NewToolCall("c2", "call_agent", []byte(`{"agent":"deployer","task":"ship it"}`)),
		provider.NewToolCall("c3", "call_agent", []byte(`{"agent":"tester","task":"run the tests"}`)),
	}}
	known := func(string) (tool.Listing, bool) { return tool.Listing{Model: "ollama/llama3.1"}, true }
	calls, _ := tool.Turn(answer, caller, tool.Lookup{Agent: known})
	turn := run.Turn{Entry: run.Entry{Answer: answer, Calls: calls}, Outcomes: []*run.Outcome{
		{Status: run.StatusCompleted, Result: "looks good"},
		nil,
		new(run.Failure(run.KindTimeout, "timeout after 60s")),
	}}
	for _, r := range tool.Results(subjects.Root, 1, turn) {
		fmt.Println(r.CallID, r.Content)
	}
	// Output:
	// c1 looks good
	// c2 call_agent error: agent "deployer" is not in this agent's sub_agents list
	// c3 Error: sub-agent "tester" failed - timeout after 60s. You may retry or proceed without this result.
}
