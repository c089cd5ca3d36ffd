package builtin

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// TestFilesKnowTheTools: the tools that an agent's file may name are those of
// this package, and each is offered under its own name.
func TestFilesKnowTheTools(t *testing.T) {
	known := slices.Sorted(slices.Values(configs.BuiltinTools()))
	if diff := cmp.Diff(known, slices.Sorted(maps.Keys(tools))); diff != "" {
		t.Errorf("tools (-configs +builtin):\n%s", diff)
	}
	for i, def := range Definitions(known) {
		if def.Name != known[i] {
			t.Errorf("tool %s is offered as %s", known[i], def.Name)
		}
	}
}
