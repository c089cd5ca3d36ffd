package cmd_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds of TestProse, per 1,000 comment lines of the module.
const (
	maxWhat   = 10
	maxWho    = 5
	maxNobody = 2
	maxWide   = 5
)

// TestProse holds the comments of the module to plain words: few clauses with
// what, who, whoever, whose and nobody, and few lines wider than 80 columns. A
// tab counts 4. Lines with a URL, indented blocks, directives and the output of
// examples may be wider. It names the files with the most findings.
func TestProse(t *testing.T) {
	lints(t)
	t.Parallel()
	rules := []struct {
		name  string
		most  int
		finds func(c commentLine) bool
	}{
		{"what", maxWhat, textMatches(`(?i)\bwhat\b`)},
		{"who, whoever, whose", maxWho, textMatches(`(?i)\b(who|whoever|whose)\b`)},
		{"nobody", maxNobody, textMatches(`(?i)\bnobody\b`)},
		{"wider than 80 columns", maxWide, commentLine.isWide},
	}
	lines := 0
	found := make([]map[string]int, len(rules))
	for i := range found {
		found[i] = map[string]int{}
	}
	for path, file := range goFiles(t) {
		for _, c := range file.comments() {
			lines++
			for i, r := range rules {
				if r.finds(c) {
					found[i][path]++
				}
			}
		}
	}
	for i, r := range rules {
		n := 0
		for _, k := range found[i] {
			n += k
		}
		if n*1000 > r.most*lines {
			t.Errorf("%s: %d of %d comment lines, want at most %d in 1,000:%s",
				r.name, n, lines, r.most, worst(found[i]))
		}
	}
}

// textMatches finds the comment lines that match a pattern.
func textMatches(pattern string) func(c commentLine) bool {
	rx := regexp.MustCompile(pattern)
	return func(c commentLine) bool { return rx.MatchString(c.text) }
}

// worst lists the ten files with the most findings.
func worst(found map[string]int) string {
	files := slices.SortedFunc(maps.Keys(found), func(a, b string) int { return found[b] - found[a] })
	var b strings.Builder
	for _, f := range files[:min(10, len(files))] {
		fmt.Fprintf(&b, "\n\t%4d %s", found[f], f)
	}
	return b.String()
}

// commentLine is one line of a comment.
type commentLine struct {
	text string
	// line is the whole line of the file.
	line string
	// output says that the line is part of an example's expected output.
	output bool
}

// isWide reports whether the line is wider than 80 columns without need.
func (c commentLine) isWide() bool {
	width := 0
	for _, r := range c.line {
		if r == '\t' {
			width += 4 - width%4
			continue
		}
		width++
	}
	return width > 80 && !c.output && !strings.Contains(c.line, "://") && !strings.Contains(c.text, "//nolint") &&
		!strings.HasPrefix(c.text, "//\t")
}

// goFile is a parsed Go file of the module.
type goFile struct {
	*ast.File
	set   *token.FileSet
	lines []string
}

// goFiles parses all Go files of the module, by path.
func goFiles(t *testing.T) map[string]goFile {
	t.Helper()
	files := map[string]goFile{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".tmp", "bin"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		files[name] = goFile{f, set, strings.Split(string(src), "\n")}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// comments lists the comment lines of a file, without directives.
func (f goFile) comments() (all []commentLine) {
	directive := regexp.MustCompile(`^//(go:|nolint|export )`)
	expected := regexp.MustCompile(`^// (Output|Unordered output):`)
	for _, group := range f.Comments {
		output := false
		for _, c := range group.List {
			if directive.MatchString(c.Text) {
				continue
			}
			first := f.set.Position(c.Pos()).Line
			for i, text := range strings.Split(c.Text, "\n") {
				output = output || expected.MatchString(text)
				all = append(all, commentLine{text, f.lines[first-1+i], output})
			}
		}
	}
	return all
}

// lints skips a test of make lint in make test, where it takes a minute of the
// race detector.
func lints(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make lint runs it")
	}
}
