package agentd

import (
	"context"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// budgetTurn returns the run's next turn, to be counted in its scopes. An
// earlier delivery of the trigger may have counted it already.
func (x *execution) budgetTurn() budget.Turn {
	return budget.Turn{Run: x.run, Number: x.nextTurn(), Scopes: x.start.Scopes, Redelivered: x.t.Count > 1}
}

// recordAnswer counts the tokens of a turn's answer and the runs that its calls
// start. It refuses the calls that a scope has no room for, the last ones
// first.
func (x *execution) recordAnswer(ctx context.Context, resp *provider.Response, calls []run.Call) error {
	wanted := 0
	for _, c := range calls {
		if c.MakesRun() {
			wanted++
		}
	}
	granted, exceeded, err := x.w.tallies.Record(ctx, x.budgetTurn(), resp.InputTokens+resp.OutputTokens, wanted)
	if err != nil {
		return err
	}
	for i := len(calls) - 1; i >= 0 && wanted > granted; i-- {
		if calls[i].MakesRun() {
			calls[i] = tool.Refused(calls[i], exceeded.Error())
			wanted--
		}
	}
	return nil
}

// refundGrant gives back the runs that the last turn was granted and never
// starts, because its supervisor or a person had none of its calls carried out.
// It comes before the next model call, which may need the room.
func (x *execution) refundGrant(ctx context.Context) error {
	if len(x.state.Turns) == 0 {
		return nil
	}
	last := x.state.Turns[len(x.state.Turns)-1]
	if !last.HasUnusedGrant() {
		return nil
	}
	turn := budget.Turn{Run: x.run, Number: len(x.state.Turns), Scopes: x.state.Start().Scopes}
	return x.w.tallies.Refund(ctx, turn, last.RunCount(), last.Entry.Trigger)
}
