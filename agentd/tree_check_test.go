package agentd_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// checkTree checks the stored messages of an ended tree with the model
// treeModel. Each call has an outcome. The logs have no holes. Every message of
// mail is stored and read as it should be (checkMail). checkTree also verifies
// the whole stream, and adds the tree's mail to mailCount. The result maps each
// turn, as label#number, to the worker that stored it.
func (h *harness) checkTree(tree subjects.Tree) (storedBy map[string]string) {
	storedBy = map[string]string{}
	labels := map[subjects.Run]string{}
	outcomes := map[string]int{}
	entries := map[subjects.Run]int{}
	for _, m := range h.readTree(tree) {
		at, err := h.conn.Space().Parse(m.Subject)
		if err != nil {
			h.tb.Fatal(err)
		}
		switch at.Kind { //nolint:exhaustive // checkMail and verify check the others
		case subjects.Call:
			labels[at.Run] = h.labelOf(labels, at.Run, m)
		case subjects.Log:
			e, err := run.DecodeEntry(m.Body)
			if err != nil {
				h.tb.Fatal(err)
			}
			entries[at.Run]++
			if e.Index != entries[at.Run] {
				h.tb.Errorf("log of %s: entry %d has index %d", at.Run, entries[at.Run], e.Index)
			}
			storedBy[fmt.Sprintf("%s#%d", labels[at.Run], e.Index)] = e.Worker
		case subjects.Reply, subjects.Result:
			outcomes[m.Subject]++
			if outcomes[m.Subject] > 1 {
				continue
			}
			o, err := run.DecodeOutcome(m.Body)
			if err != nil {
				h.tb.Fatal(err)
			}
			// The last turn may be on the log too. The log comes first.
			turn := fmt.Sprintf("%s#%d", labels[h.runOf(tree, o)], o.Turns)
			if storedBy[turn] == "" {
				storedBy[turn] = o.Worker
			}
		}
	}
	for _, reply := range h.unanswered(tree) {
		h.tb.Errorf("no outcome at %s", reply)
	}
	h.mailCount += h.checkMail(tree, labels)
	h.checkVerified()
	return storedBy
}

// unanswered returns the reply subjects that messages of a tree name and that
// have no message.
func (h *harness) unanswered(tree subjects.Tree) []string {
	stored := map[string]bool{}
	var replies []string
	for _, m := range h.readTree(tree) {
		stored[m.Subject] = true
		if reply := m.Header.Get(subjects.HeaderReply); reply != "" {
			replies = append(replies, reply)
		}
	}
	return slices.DeleteFunc(replies, func(reply string) bool { return stored[reply] })
}

// labelOf returns the label of a run, from its call. A review has a label of
// its own. The label of a fork that inherits is made from its parent's label and
// the place of the fork call, so labels must have the parent's.
func (h *harness) labelOf(labels map[subjects.Run]string, r subjects.Run, call bus.Stored) string {
	var in run.Input
	if err := json.Unmarshal(call.Body, &in); err != nil {
		h.tb.Fatal(err)
	}
	if review := reviewLabel(in.Task); review != "" {
		return review
	}
	if in.Forked == nil || !in.Forked.Inherit {
		return labelOfTask(in.Task)
	}
	path, turn, index, _ := r.Path.Parent()
	return fmt.Sprintf("%s~%d-%d", labels[r.Space.Run(r.Agent, r.Tree, path)], turn, index)
}

// runOf returns the address of the run that has an outcome.
func (h *harness) runOf(tree subjects.Tree, o run.Outcome) subjects.Run {
	p, err := subjects.ParsePath(o.Path)
	if err != nil {
		h.tb.Fatal(err)
	}
	return h.conn.Space().Run(h.agent(o.Agent), tree, p)
}

// expectRepeatsInFlight checks the promise about cost. A turn may be asked
// again only if it was in flight when the victim died or lost its lease. So the
// victim has not stored such a turn, and the other workers together have asked
// for it once.
func (h *harness) expectRepeatsInFlight(storedBy map[string]string, victim string) {
	for turn, workers := range h.tree.repeated() {
		if storedBy[turn] == victim {
			h.tb.Errorf("turn %s was stored by %s and asked again: %v", turn, victim, workers)
		}
		others := slices.DeleteFunc(slices.Clone(workers), func(w string) bool { return w == victim })
		if len(others) > 1 {
			h.tb.Errorf("turn %s was asked %d times by workers that lived: %v", turn, len(others), workers)
		}
	}
}
