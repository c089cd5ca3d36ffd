package agentd

import (
	"context"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// nextTurn is the run's next turn, to be counted in scopes. Redelivered says
// that an earlier delivery of its trigger may have counted it.
func (h *history) nextTurn(scopes []subjects.Scope, redelivered bool) budget.Turn {
	return budget.Turn{Run: h.run, Number: len(h.state.Turns) + 1, Scopes: scopes, Redelivered: redelivered}
}

// recordAnswer counts the tokens of a turn's answer and the runs that its calls
// start. It refuses the calls that a scope has no room for, the last ones
// first.
func (w *Worker) recordAnswer(ctx context.Context, t budget.Turn, resp *provider.Response, calls []run.Call) error {
	wanted := 0
	for _, c := range calls {
		if c.MakesRun() {
			wanted++
		}
	}
	granted, exceeded, err := w.tallies.Record(ctx, t, resp.InputTokens+resp.OutputTokens, wanted)
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
func (w *Worker) refundGrant(ctx context.Context, h *history) error {
	if len(h.state.Turns) == 0 {
		return nil
	}
	last := h.state.Turns[len(h.state.Turns)-1]
	if !last.HasUnusedGrant() {
		return nil
	}
	turn := budget.Turn{Run: h.run, Number: len(h.state.Turns), Scopes: h.state.Start().Scopes}
	return w.tallies.Refund(ctx, turn, last.RunCount(), last.Entry.Trigger)
}
