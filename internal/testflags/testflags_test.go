package testflags_test

import (
	"flag"
	"testing"

	"github.com/axebus/axe/internal/testflags"
)

// TestDefault: a default is set while the command line gives none. From then on
// the flag counts as given, and keeps its value.
func TestDefault(t *testing.T) {
	n := flag.Int("testflags.n", 1, "for this test")
	if given := testflags.Default("testflags.n", "2"); given || *n != 2 {
		t.Errorf("the first default: given %t, value %d, want false and 2", given, *n)
	}
	if given := testflags.Default("testflags.n", "3"); !given || *n != 2 {
		t.Errorf("the second default: given %t, value %d, want true and 2", given, *n)
	}
}
