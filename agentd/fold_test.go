package agentd_test

import (
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// fold folds the stored messages of a tree to the states of its runs. It leaves
// out each run's own outcome: a state shows the outcomes of its children.
func (h *harness) fold(tree subjects.Tree) map[subjects.Run]run.State {
	runs := map[subjects.Run]run.State{}
	for _, m := range h.readTree(tree) {
		at, err := h.conn.Space().Parse(m.Subject)
		if err != nil {
			h.tb.Fatal(err)
		}
		e, err := eventOf(at, m)
		if err != nil {
			h.tb.Fatalf("%s: %v", m.Subject, err)
		}
		if e == nil {
			continue
		}
		if runs[at.Run], err = runs[at.Run].Apply(e); err != nil {
			h.tb.Fatalf("%s: %v", m.Subject, err)
		}
	}
	return runs
}

// eventOf decodes a message to an event of its run. It returns nil for a
// message that is no event.
func eventOf(at subjects.Address, m bus.Stored) (run.Event, error) {
	meta := run.Meta{Seq: m.Seq, Time: m.Time}
	switch at.Kind { //nolint:exhaustive // the rest is no event here
	case subjects.Call:
		return run.Called{Meta: meta}, nil
	case subjects.Log:
		e, err := run.DecodeEntry(m.Body)
		return e.Event(meta), err
	case subjects.Reply:
		o, err := run.DecodeOutcome(m.Body)
		return run.Replied{Meta: meta, Turn: at.Turn, Index: at.Index, Outcome: o}, err
	case subjects.Timer:
		return run.TimedOut{Meta: meta, Turn: at.Turn}, nil
	case subjects.Mail:
		mail, err := run.DecodeMail(m.Body)
		mail.Key = at.Key.String()
		return run.Mailed{Meta: meta, Mail: mail}, err
	case subjects.Interrupt:
		return run.Interrupted{Meta: meta}, nil
	case subjects.Approve:
		a, err := run.DecodeApproval(m.Body)
		return run.Approved{Meta: meta, Approval: a}, err
	case subjects.Cancel:
		return run.Cancelled{Meta: meta}, nil
	}
	return nil, nil
}

// carriedOut reports whether the n-th turn of a run was carried out.
func carriedOut(s run.State, n int) bool {
	return n <= len(s.Turns) && s.Turns[n-1].CarriedOut()
}
