package run_test

import (
	"fmt"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// A run calls one child. After each message the state names the effects that it
// owes and the message that owns them.
func ExampleState_Apply() {
	turn := run.Entry{
		Index: 1, Kind: run.EntryTurn, Trigger: 10, Start: &run.Start{Model: "anthropic/claude"},
		Answer: &provider.Response{
			ToolCalls: []provider.ToolCall{
				provider.NewToolCall("c1", "call_agent", []byte(`{"agent":"reviewer","task":"look"}`)),
			},
		},
		Calls: []run.Call{{Agent: "reviewer"}},
	}
	history := []run.Event{
		run.Called{Meta: run.Meta{Seq: 10}, Input: run.Input{Task: "review the change"}},
		run.Answered{Meta: run.Meta{Seq: 11}, Entry: turn},
		run.Replied{
			Meta:    run.Meta{Seq: 15},
			Turn:    1,
			Index:   0,
			Outcome: run.Outcome{Status: run.StatusCompleted, Result: "fine"},
		},
		run.OutcomeStored{Outcome: run.Outcome{Status: run.StatusCompleted, Result: "merge it"}},
	}
	var s run.State
	for _, e := range history {
		var err error
		if s, err = s.Apply(e); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v, message %d owes:", s.Phase, s.Owner)
		for _, effect := range s.Outstanding().All() {
			fmt.Printf(" %T", effect)
		}
		fmt.Println()
	}
	// Output:
	// ready, message 10 owes: run.CallModel
	// awaiting, message 10 owes: run.CallChildren
	// ready, message 15 owes: run.CallModel
	// completed, message 15 owes:
}
