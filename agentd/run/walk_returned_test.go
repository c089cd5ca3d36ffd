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
			run.ReturnDrained, run.ReturnLeaseLost, run.ReturnUnused, run.ReturnFailed, "a later version's",
		}).Draw(t, "cause")},
	}
}

// checkReturns: a return changes nothing about a run but the count of its
// trigger's deliveries. Each delivery counts once, and its first return
// decides. Nothing is counted once the outcome is stored.
func (w *walker) checkReturns(t *rapid.T, before, after run.State, e run.Event) {
	if m, ok := e.(run.Returned); ok && m.Seq > before.Seq {
		ignored := cmpopts.IgnoreFields(run.State{}, "Seq", "Returns")
		if diff := cmp.Diff(before, after, unexported, ignored); diff != "" {
			t.Fatalf("%+v changed the run:\n%s", m, diff)
		}
		if _, again := w.returns[m.Trigger][m.Delivery]; !again && !before.OutcomeStored {
			if w.returns[m.Trigger] == nil {
				w.returns[m.Trigger] = map[int]bool{}
			}
			w.returns[m.Trigger][m.Delivery] = m.Cause != run.ReturnFailed
		}
	}
	for trigger := uint64(1); trigger <= 8; trigger++ {
		excused, failed := 0, 0
		for _, excuses := range w.returns[trigger] {
			if excuses {
				excused++
			} else {
				failed++
			}
		}
		got := after.Returns.Of(trigger)
		if got.Excused != excused || got.Failed != failed || after.Returns.Of(trigger).Counted(50) != 50-excused {
			t.Fatalf("trigger %d: %+v, want %d excused and %d failed", trigger, got, excused, failed)
		}
	}
}
