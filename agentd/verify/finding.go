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
	Violation Severity = "violation" // no worker writes this
	Note      Severity = "note"      // harmless, or not decidable
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule"`
	Tree     string   `json:"tree,omitzero"`
	Path     string   `json:"path,omitzero"`
	Agent    string   `json:"agent,omitzero"`
	// of the message in the stream, 0 for one that is missing
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

// Report is what was found, and in how much.
type Report struct {
	Trees int `json:"trees"`
	// of the trees: a run may still come to its end
	UnderWay int       `json:"under_way"`
	Runs     int       `json:"runs"`
	Messages int       `json:"messages"`
	Findings []Finding `json:"findings"` // by tree, in stream order
}

// Violations counts what is wrong.
func (r Report) Violations() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Violation {
			n++
		}
	}
	return n
}

// remark is a finding with the run whose fold it rests on: it is void if that
// fold turns out to be broken.
type remark struct {
	Finding
	rests *node
}

// inOrder sorts findings by tree, and by their place in the stream.
func inOrder(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Tree, b.Tree),
			cmp.Compare(a.Seq, b.Seq),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Rule, b.Rule),
		)
	})
}
