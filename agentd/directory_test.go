package agentd

import "testing"

// TestCopyKeepsLaterCards: a worker has put a card, and another worker replaces
// it before the answer to the put is here. The copy then has the later card, so
// that the worker announces its agent again. Without such a change, the copy
// has the worker's own card before the watch shows it.
func TestCopyKeepsLaterCards(t *testing.T) {
	own, wrong := Card{Name: "leaf", Digest: "d"}, Card{Name: "leaf", Problem: "leaf.toml:1: no"}
	for _, test := range []struct {
		name  string
		heard func(d *directory)
		lacks bool
	}{
		{"nothing", func(*directory) {}, false},
		{"own", func(d *directory) { d.hear("leaf", own, false) }, false},
		{"own and wrong", func(d *directory) { d.hear("leaf", own, false); d.hear("leaf", wrong, false) }, true},
		{"own and withdrawn", func(d *directory) { d.hear("leaf", own, false); d.hear("leaf", Card{}, true) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDirectory()
			d.hear("leaf", wrong, false)
			before := d.changes["leaf"]
			test.heard(d)
			d.stored(own, before)
			if lacks := d.lacks(own, false); lacks != test.lacks {
				t.Errorf("the directory lacks the card: %t, want %t", lacks, test.lacks)
			}
		})
	}
}
