package chaostest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every tree is a lead that calls two mids and, between them, a post. Each mid
// spawns three leaves. A post forks three copies of itself, waits for all of
// them, writes to the first, kills the last and waits for the first again.
// Every other tree has a scribe instead of the post, which does the same by
// slash commands.
const (
	width      = 3
	runsOfTree = 1 + width + width*width
	// Each fork's idle notice, the message to the first fork, and its
	// second idle notice.
	mailOfTree = width + 2
)

// turnsOf returns the number of turns of a run, by its label.
func turnsOf(label string) int {
	switch at := strings.Split(label, "."); {
	case len(at) == 2 && at[1] == "1": // a post
		return 4
	case len(at) == 3 && at[1] == "1" && at[2] == "0": // its first fork
		return 3
	case len(at) == 3:
		return 1
	}
	return 2
}

// turnsOfTree returns the number of turns of all runs of a tree.
func turnsOfTree() int {
	n := turnsOf("T")
	for i := range width {
		child := fmt.Sprintf("T.%d", i)
		n += turnsOf(child)
		for k := range width {
			n += turnsOf(fmt.Sprintf("%s.%d", child, k))
		}
	}
	return n
}

// onceMore is the message to the first fork of a post.
const onceMore = "once more"

// writeAgents makes the agents of a tree and returns their directory. The
// system prompt of an agent lists the agents that its model calls, in their
// order.
func writeAgents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, a := range []struct{ name, subs, style string }{
		{"lead", "mid post mid scribe", "call"},
		{"mid", "leaf", "spawn"},
		{"post", "", "mail"},
		{"scribe", "", "slash"},
		{"leaf", "", "call"},
	} {
		toml := fmt.Sprintf("name = %q\nmodel = \"ollama/counting\"\nsystem_prompt = %q\n", a.name, a.subs)
		if subs := strings.Fields(a.subs); len(subs) > 0 {
			slices.Sort(subs)
			toml += fmt.Sprintf("sub_agents = [\"%s\"]\n", strings.Join(slices.Compact(subs), `", "`))
		}
		toml += fmt.Sprintf("[delegation]\nstyle = %q\n", a.style)
		if err := os.WriteFile(filepath.Join(dir, a.name+".toml"), []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rightAnswer returns the answer that a run must have. Below is the number of
// levels of runs below it.
func rightAnswer(label string, below int) string {
	var parts []string
	for i := range width {
		if below > 0 {
			parts = append(parts, rightAnswer(fmt.Sprintf("%s.%d", label, i), below-1))
		}
	}
	// The first fork of a post.
	if below == 0 && strings.HasSuffix(label, ".1.0") {
		parts = append(parts, onceMore)
	}
	return label + "(" + strings.Join(parts, " ") + ")"
}

// treeLabel returns the label of a tree by its number: the task of its lead,
// and its id.
func treeLabel(i int) string { return fmt.Sprintf("T%05d", i) }
