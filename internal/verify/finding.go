package verify

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity says whether a finding means that something is wrong.
type Severity string

// The severities.
const (
	// Violation is something that no worker writes.
	Violation Severity = "violation"
	// Note is something harmless, or something that cannot be decided.
	Note Severity = "note"
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	Tree     string   `json:"tree,omitzero"`
	Path     string   `json:"path,omitzero"`
	Agent    string   `json:"agent,omitzero"`
	// Seq is the sequence of the message. If a message is missing, it is
	// the sequence of the call or log entry that made it due. It is 0 for a
	// finding about a whole tree or stream.
	Seq  uint64 `json:"seq,omitzero"`
	Text string `json:"text"`
}

// String is the finding in one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s %s", f.Severity, f.Rule)
	if f.Tree != "" {
		s += fmt.Sprintf(" tree %s %s %s", f.Tree, f.Path, f.Agent)
	}
	if f.Seq != 0 {
		s += fmt.Sprintf(" message %d", f.Seq)
	}
	return s + ": " + f.Text
}

// MaxUnderWayTrees bounds Report.UnderWayTrees.
const MaxUnderWayTrees = 100

// Report is the result of a check.
type Report struct {
	Trees int `json:"trees"`
	// UnderWay is the number of trees with a run that may still end.
	UnderWay int `json:"under_way"`
	// UnderWayTrees has the ids of these trees, sorted, and at most
	// MaxUnderWayTrees of them.
	UnderWayTrees []string `json:"under_way_trees,omitempty"`
	Runs          int      `json:"runs"`
	Messages      int      `json:"messages"`
	// WastedRequests is the number of requests to a model whose answers
	// were not stored, because their workers let go of the run. WastedMS is
	// their time in ms. Workers that died are not counted.
	WastedRequests int   `json:"wasted_requests"`
	WastedMS       int64 `json:"wasted_ms"`
	// Findings are sorted by tree, and within a tree in stream order.
	Findings []Finding `json:"findings"`
}

// Violations returns the number of violations.
func (r Report) Violations() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Violation {
			n++
		}
	}
	return n
}

// remark is a finding that may follow from the fold of another run. It is void
// if that run's log turns out to be broken.
type remark struct {
	Finding
	basis *node
}

// spot is the place of a finding: a message of a run.
type spot struct {
	run   *node
	seq   uint64
	basis *node
}

// on is the spot of a message of the run.
func (n *node) on(m Message) spot { return spot{run: n, seq: m.Seq} }

// at is the spot of the message with a sequence.
func (n *node) at(seq uint64) spot { return spot{run: n, seq: seq} }

// per returns the spot of a finding that follows from the fold of another run.
func (s spot) per(basis *node) spot {
	s.basis = basis
	return s
}

// note adds a finding that is no violation.
func (c *Checker) note(s spot, r Rule, format string, args ...any) {
	c.remark(Note, s, r, fmt.Sprintf(format, args...))
}

// violate adds a violation.
func (c *Checker) violate(s spot, r Rule, format string, args ...any) {
	c.remark(Violation, s, r, fmt.Sprintf(format, args...))
}

func (c *Checker) remark(v Severity, s spot, r Rule, text string) {
	n := s.run
	c.remarks = append(c.remarks, remark{
		Finding: Finding{
			Severity: v,
			Rule:     r,
			Tree:     n.tree.id.String(),
			Path:     n.path.String(),
			Agent:    n.agent.String(),
			Seq:      s.seq,
			Text:     text,
		},
		basis: s.basis,
	})
}

// foreign adds a note about a message that belongs to no run.
func (c *Checker) foreign(m Message, text string) {
	c.remarks = append(c.remarks, remark{Finding: Finding{Severity: Note, Rule: Foreign, Seq: m.Seq, Text: text}})
}

// sortFindings sorts findings by tree, and by their place in the stream.
func sortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Rule, b.Rule))
	})
}
