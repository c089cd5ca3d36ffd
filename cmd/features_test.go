package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFeatures: every line of testdata/features.txt has its number, and what it names is there.
func TestFeatures(t *testing.T) {
	table, err := os.ReadFile("testdata/features.txt")
	if err != nil {
		t.Fatal(err)
	}
	there, numbered := map[string]proofs{}, map[string]int{}
	for line := range strings.Lines(string(table)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		proof, feature, two := strings.Cut(line, " | ")
		fields := strings.Fields(proof)
		if !two || strings.TrimSpace(feature) == "" || len(fields) != 3 {
			t.Errorf("%q: want an id, a directory, a test, and a feature after a bar", line)
			continue
		}
		id, dir, test := fields[0], fields[1], fields[2]
		doc, _, _ := strings.Cut(id, ".")
		numbered[doc]++
		if want := fmt.Sprintf("%s.%d", doc, numbered[doc]); id != want {
			t.Errorf("%s stands where %s belongs", id, want)
		}
		if strings.HasSuffix(test, ".txt") {
			if _, err := os.Stat(filepath.Join("testdata", "script", test)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			continue
		}
		if _, ok := there[dir]; !ok {
			there[dir] = proofsIn(t, filepath.Join("..", filepath.FromSlash(dir)))
		}
		if err := there[dir].have(test); err != nil {
			t.Errorf("%s: %s: %v", id, dir, err)
		}
	}
	for _, doc := range []string{"002", "003", "004"} {
		if numbered[doc] == 0 {
			t.Errorf("nothing of %s is in the table", doc)
		}
	}
}
