package main

import (
	"fmt"
	"testing"

	"github.com/axebus/axe/internal/verify"
)

// TestVerdictNamesTrees: the verdict names at most ten of the trees under way,
// and counts the others and the wasted requests.
func TestVerdictNamesTrees(t *testing.T) {
	r := verify.Report{Trees: 2000, UnderWay: 1500}
	for i := range 12 {
		r.UnderWayTrees = append(r.UnderWayTrees, fmt.Sprintf("t%02d", i))
	}
	const want = "2,000 trees, 0 runs, 0 messages: nothing is wrong; " +
		"1,500 trees under way: t00, t01, t02, t03, t04, t05, t06, t07, t08, t09 and 1,490 more"
	if got := verdict(r); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const wasted = "0 trees, 0 runs, 0 messages: nothing is wrong; 1,200 model requests wasted (1h0m0.1s)"
	if got := verdict(verify.Report{WastedRequests: 1200, WastedMS: 3_600_123}); got != wasted {
		t.Errorf("got %s, want %s", got, wasted)
	}
	r.UnderWay, r.UnderWayTrees = 1, r.UnderWayTrees[:1]
	if got := underWay(r); got != "t00" {
		t.Errorf("got %q for one tree under way, want t00", got)
	}
}
