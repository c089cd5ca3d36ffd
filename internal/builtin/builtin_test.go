package builtin

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// TestFilesKnowTheTools finds a tool that an agent's file cannot name, a name
// that no tool carries out, and a tool that is offered under another name.
func TestFilesKnowTheTools(t *testing.T) {
	known := slices.Sorted(slices.Values(configs.BuiltinTools()))
	if diff := cmp.Diff(known, slices.Sorted(maps.Keys(tools))); diff != "" {
		t.Errorf("tools that files know, -configs +builtin:\n%s", diff)
	}
	for i, def := range Definitions(known) {
		if def.Name != known[i] {
			t.Errorf("tool %s is offered as %s", known[i], def.Name)
		}
	}
}
