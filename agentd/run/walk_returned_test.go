package run_test

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
)

// drawReturned draws a return: of the owner, of another message or of none, in
// time, late or for a second time. A state keeps the returns of 8 triggers, and
// of the last 64 deliveries of each. No walk exceeds that.
func drawReturned(t *rapid.T, m run.Meta) run.Event {
	return run.Returned{
		Meta:     m,
		Trigger:  uint64(rapid.IntRange(1, 8).Draw(t, "trigger")),
		Delivery: rapid.IntRange(1, 40).Draw(t, "delivery"),
		Return: run.Return{Cause: rapid.SampledFrom([]run.ReturnCause{
			run.ReturnDrained, run.ReturnLeaseLost, run.ReturnUnused, run.ReturnFailed, run.ReturnBegun,
			"a later version's",
		}).Draw(t, "cause")},
	}
}

// checkReturns: a return changes nothing about a run but the count of its
// trigger's deliveries. Each delivery counts once, and its first return but a
// ReturnBegun decides. Nothing is counted once the outcome is stored.
func (w *walker) checkReturns(t *rapid.T, before, after run.State, e run.Event) {
	if m, ok := e.(run.Returned); ok && m.Seq > before.Seq {
		ignored := cmpopts.IgnoreFields(run.State{}, "Seq", "Returns")
		if diff := cmp.Diff(before, after, unexported, ignored); diff != "" {
			t.Fatalf("%+v changed the run:\n%s", m, diff)
		}
		if is := w.returns[m.Trigger][m.Delivery]; (is == "" || is == run.ReturnBegun) && !before.OutcomeStored {
			if w.returns[m.Trigger] == nil {
				w.returns[m.Trigger] = map[int]run.ReturnCause{}
			}
			w.returns[m.Trigger][m.Delivery] = m.Cause
		}
	}
	for trigger := uint64(1); trigger <= 8; trigger++ {
		excused, failed, begun := 0, 0, 0
		for _, cause := range w.returns[trigger] {
			switch cause { //nolint:exhaustive // every other cause excuses
			case run.ReturnBegun:
				begun++
			case run.ReturnFailed:
				failed++
			default:
				excused++
			}
		}
		got := after.Returns.Of(trigger)
		if got.Excused != excused || got.Failed != failed || got.Begun != begun ||
			got.Counted(50, 50) != 50-excused || got.Counted(50, 1) != 1+failed+begun+1 {
			t.Fatalf("trigger %d: %+v, want %d excused, %d failed and %d begun", trigger, got, excused, failed, begun)
		}
	}
}
