package chaostest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every tree is a lead that calls three mids, each of which spawns three leaves.
const (
	width       = 3
	runsOfTree  = 1 + width + width*width
	turnsOfTree = 2 + 2*width + width*width
)

// writeAgents makes the directory of the three agents. Their prompts say whom to call.
func writeAgents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, a := range [][2]string{{"lead", "mid"}, {"mid", "leaf"}, {"leaf", ""}} {
		toml := fmt.Sprintf("name = %q\nmodel = \"ollama/counting\"\nsystem_prompt = %q\n", a[0], a[1])
		if a[1] != "" {
			toml += fmt.Sprintf("sub_agents = [%q]\n", a[1])
		}
		if a[0] == "mid" {
			toml += "[delegation]\nstyle = 'spawn'\n"
		}
		if err := os.WriteFile(filepath.Join(dir, a[0]+".toml"), []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rightAnswer is that of a run with so many levels below it.
func rightAnswer(label string, below int) string {
	var parts []string
	for i := range width {
		if below > 0 {
			parts = append(parts, rightAnswer(fmt.Sprintf("%s.%d", label, i), below-1))
		}
	}
	return label + "(" + strings.Join(parts, " ") + ")"
}

// treeLabel is what the lead of a tree is asked to do, and its id.
func treeLabel(i int) string { return fmt.Sprintf("T%05d", i) }
