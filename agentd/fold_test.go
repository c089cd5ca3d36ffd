package agentd_test

import (
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// fold folds the stored messages of a tree to the states of its runs. It leaves
// out each run's own outcome: a state shows the outcomes of its children.
func (h *harness) fold(tree subjects.Tree) map[subjects.Run]run.State {
	h.learnClockSteps()
	runs := map[subjects.Run]run.State{}
	for _, m := range h.readTree(tree) {
		at, err := h.conn.Space().Parse(m.Subject)
		if err != nil {
			h.tb.Fatal(err)
		}
		e, err := run.Decode(at, run.Meta{Seq: m.Seq, Time: m.Time, Shift: h.clockShift(m)}, m.Body)
		if err != nil {
			h.tb.Fatalf("%s: %v", m.Subject, err)
		}
		if _, ok := e.(run.OutcomeStored); ok || e == nil {
			continue
		}
		if runs[at.Run], err = runs[at.Run].Apply(e); err != nil {
			h.tb.Fatalf("%s: %v", m.Subject, err)
		}
	}
	return runs
}

// carriedOut reports whether the n-th turn of a run was carried out.
func carriedOut(s run.State, n int) bool {
	return n <= len(s.Turns) && s.Turns[n-1].CarriedOut()
}
