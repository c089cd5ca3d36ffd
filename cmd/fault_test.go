package cmd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// fault is a mistake that is planted in the code. A test has to find it. A file
// in testdata/faults holds one fault:
//
//	The mistake, and the rule of the design that it breaks.
//
//	find ./package TestName flag…     a test that then fails, one a line
//	-- file.go --
//	-text that occurs once in the file
//	+text that replaces it
//
// A line with neither sign ends an edit, so a file may have several edits.
type fault struct {
	name  string
	finds []find
	// edits holds the edits by file, relative to the root of the module.
	edits map[string][]edit
}

// find is a test that finds a fault.
type find struct {
	pkg, test string
	flags     []string
}

func (f find) String() string {
	return strings.Join(append([]string{"go test", f.pkg, "-run", f.test}, f.flags...), " ")
}

// walks returns the number of random walks that the flags of the test ask for.
// It is 0 if they ask for none.
func (f find) walks() int {
	for _, flag := range f.flags {
		if n, ok := strings.CutPrefix(flag, "-rapid.checks="); ok {
			walks, _ := strconv.Atoi(n) // the test refuses what is no number
			return walks
		}
	}
	return 0
}

// edit replaces a text that occurs once.
type edit struct{ was, is string }

// faults reads all faults.
func faults(t *testing.T) []fault {
	t.Helper()
	files, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no faults: %v", err)
	}
	var all []fault
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := fault{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), edits: map[string][]edit{}}
		for line := range strings.Lines(string(a.Comment)) {
			if words := strings.Fields(line); len(words) > 2 && words[0] == "find" {
				f.finds = append(f.finds, find{words[1], words[2], words[3:]})
			}
		}
		for _, section := range a.Files {
			f.edits[section.Name] = append(f.edits[section.Name], edits(string(section.Data))...)
		}
		if len(f.finds) == 0 || len(f.edits) == 0 {
			t.Fatalf("%s plants no fault, or names no test that finds it", file)
		}
		all = append(all, f)
	}
	return all
}

// edits reads the edits of a file.
func edits(text string) []edit {
	var all []edit
	var was, is []string
	for line := range strings.SplitSeq(text+"\n", "\n") {
		switch {
		case strings.HasPrefix(line, "-"):
			was = append(was, line[1:])
		case strings.HasPrefix(line, "+"):
			is = append(is, line[1:])
		case len(was) > 0:
			all = append(all, edit{strings.Join(was, "\n"), strings.Join(is, "\n")})
			was, is = nil, nil
		}
	}
	return all
}

// plant returns the changed files of a fault by path.
func (f fault) plant() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, edits := range f.edits {
		path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text := string(b)
		for _, e := range edits {
			if n := strings.Count(text, e.was); n != 1 {
				return nil, fmt.Errorf("%s has %d times, not once:\n%s", name, n, e.was)
			}
			text = strings.Replace(text, e.was, e.is, 1)
		}
		out[path] = []byte(text)
	}
	return out, nil
}

// overlay writes the changed files and the configuration of go build -overlay
// to a directory. The source tree does not change.
func (f fault) overlay(t *testing.T, dir string) string {
	t.Helper()
	planted, err := f.plant()
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for i, path := range slices.Sorted(maps.Keys(planted)) {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[path], planted[path], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
