package cmd_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sections lists the headings that contain features, by document. The head of
// testdata/features.txt has the titles of the three documents. Their other
// sections give reasons or examples.
var sections = map[string][]string{
	"002": {"Constraints", "Spawning", "Isolation Model", "Communication", "Supervision", "Error Handling"},
	"003": {
		"The Two-Path Model",
		"Commands",
		"Child Lifecycle",
		"Structured Completion Message",
		"System Prompt Guidance",
		"Open Questions",
	},
	"004": {
		"State Machine Changes", "State Transitions", "Property Invariants", "Tool Definitions", "Tool Availability",
		"Runtime / Executor Responsibilities", "Database", "Sub-Agent Initial Message", "Aggregated Results Format",
	},
}

// TestFeatures checks testdata/features.txt: the lines of each document are
// numbered from 1, the test or script that a line names exists, and the file
// has the listed sections in their order.
func TestFeatures(t *testing.T) {
	table, err := os.ReadFile("testdata/features.txt")
	if err != nil {
		t.Fatal(err)
	}
	byDir, numbered := map[string]proofs{}, map[string]int{}
	// shown maps a document to its sections that have a line.
	shown := map[string][]string{}
	var doc, section string
	for line := range strings.Lines(string(table)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if heading, ok := strings.CutPrefix(line, "["); ok {
			doc, section, _ = strings.Cut(strings.TrimSuffix(heading, "]"), " ")
			continue
		}
		f, err := featureOf(line)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Contains(shown[doc], section) {
			shown[doc] = append(shown[doc], section)
		}
		numbered[doc]++
		if want := fmt.Sprintf("%s.%d", doc, numbered[doc]); f.id != want {
			t.Errorf("got the id %s, want %s", f.id, want)
		}
		if err := f.check(t, byDir); err != nil {
			t.Errorf("%s: %s: %v", f.id, f.dir, err)
		}
	}
	if !maps.EqualFunc(sections, shown, slices.Equal) {
		t.Errorf("the sections with a feature are\n%q, want\n%q", shown, sections)
	}
}

// feature is one line of the table.
type feature struct{ id, dir, test string }

// featureOf parses a line of the table.
func featureOf(line string) (feature, error) {
	proof, text, two := strings.Cut(line, " | ")
	fields := strings.Fields(proof)
	if !two || strings.TrimSpace(text) == "" || len(fields) != 3 {
		return feature{}, fmt.Errorf("%q: want an id, a directory, a test, and a feature after a bar", line)
	}
	return feature{fields[0], fields[1], fields[2]}, nil
}

// check returns an error if the test of a feature does not exist. It reads each
// directory once, into byDir.
func (f feature) check(t *testing.T, byDir map[string]proofs) error {
	t.Helper()
	if strings.HasSuffix(f.test, ".txt") {
		_, err := os.Stat(filepath.Join("testdata", "script", f.test))
		return err
	}
	if _, ok := byDir[f.dir]; !ok {
		byDir[f.dir] = proofsIn(t, filepath.Join("..", filepath.FromSlash(f.dir)))
	}
	return byDir[f.dir].have(f.test)
}
