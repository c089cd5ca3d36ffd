package agentd_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// checkTree checks the stored messages of a tree of treeModel that has ended.
// Each call has an outcome, logs have no holes, mail was conserved, and package
// verify finds no violation. It returns the worker that stored each turn.
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
		switch at.Kind { //nolint:exhaustive // other messages have nothing to check
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
			// The last turn may stand on the log before its
			// outcome.
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

// unanswered returns the reply subjects of a tree's calls that hold no outcome.
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

// labelOf is the label of a run, from its call. The label of a copy is made
// from its parent's label and the place of the fork call.
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

// runOf is the address of the run that an outcome is of.
func (h *harness) runOf(tree subjects.Tree, o run.Outcome) subjects.Run {
	p, err := subjects.ParsePath(o.Path)
	if err != nil {
		h.tb.Fatal(err)
	}
	return h.conn.Space().Run(h.agent(o.Agent), tree, p)
}

// expectRepeatsInFlight checks the promise about cost: a turn that was asked
// again was in flight when its first worker, the victim, died or lost its
// lease. So the victim has not stored it, and no other worker asked twice.
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
