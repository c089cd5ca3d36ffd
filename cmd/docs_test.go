package cmd_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is one page of the documentation.
type page struct {
	name string // its path below the root of the repository
	text string
}

// pages reads all pages of the documentation.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, pattern := range []string{"../*.md", "../docs/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			all = append(all, readPage(t, strings.TrimPrefix(filepath.ToSlash(file), "../")))
		}
	}
	if len(all) < 10 {
		t.Fatalf("found %d pages, want README, ARCHITECTURE and those in docs", len(all))
	}
	return all
}

// readPage reads a text file by its path below the root of the repository.
func readPage(t *testing.T, name string) page {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return page{name, string(b)}
}

// block is a fenced block of a page.
type block struct {
	info string // after the opening fence
	line int    // of the opening fence, from 1
	body string
}

// blocks returns the fenced blocks of a page, and its lines outside of them.
// The lines of blocks are empty in the second result, so that the index of a
// line is its line number less one.
func (p page) blocks() (fenced []block, prose []string) {
	prose = strings.Split(p.text, "\n")
	open := -1
	for i, line := range prose {
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open < 0:
			fenced = append(fenced, block{info: info, line: i + 1})
			open = i
			prose[i] = ""
		case fence:
			open = -1
			prose[i] = ""
		case open >= 0:
			fenced[len(fenced)-1].body += line + "\n"
			prose[i] = ""
		}
	}
	return fenced, prose
}

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ (.*)$`)
)

// anchors returns the anchors of a page's headings, as GitHub makes them.
func (p page) anchors() []string {
	var all []string
	_, prose := p.blocks()
	for _, line := range prose {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// TestPagesLinks: every link inside the repository leads to a file that exists,
// and to a heading of it.
func TestPagesLinks(t *testing.T) {
	for _, p := range pages(t) {
		_, prose := p.blocks()
		for i, line := range prose {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, ":") {
					continue // on another site
				}
				to := p
				if target != "" {
					name := path.Join(path.Dir(p.name), target)
					if _, err := os.Stat(filepath.Join("..", name)); err != nil {
						t.Errorf("%s:%d: %v", p.name, i+1, err)
						continue
					}
					if anchor == "" {
						continue
					}
					to = readPage(t, name)
				}
				if !slices.Contains(to.anchors(), anchor) {
					t.Errorf("%s:%d: %s has no heading #%s", p.name, i+1, to.name, anchor)
				}
			}
		}
	}
}

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	goTest     = regexp.MustCompile(`go test (\./[\w/.]*?)(/\.\.\.)?(?: -run '?([^']+?)'?)?$`)
	identifier = regexp.MustCompile(`^([a-z]+)((?:\.[A-Z]\w*)+)$`)
	makeTarget = regexp.MustCompile(`\bmake ([a-z-]+)`)
)

// TestPagesNames: every Go file, directory, identifier, test and target of make
// that a page names in backquotes exists. A command go test that a page names
// has tests to run.
func TestPagesNames(t *testing.T) {
	files, tests := sources(t)
	makefile := readPage(t, "Makefile").text
	for _, p := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(p.text, -1) {
			name := strings.ReplaceAll(m[1], `\|`, "|")
			first, _, below := strings.Cut(name, "/")
			switch {
			case strings.ContainsAny(name, "<*…{\n"), strings.HasPrefix(name, "/"):
			case identifier.MatchString(name):
				checkIdentifier(t, p, name, files)
			case goTest.MatchString(name):
				checkGoTest(t, p, name, tests)
			case regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z]\w*$`).MatchString(name):
				if !slices.Contains(slices.Concat(slices.Collect(maps.Values(tests))...), name) {
					t.Errorf("%s names %s, which does not exist", p.name, name)
				}
			case strings.HasSuffix(name, ".go") && !strings.Contains(name, " "),
				below && files[first] && !strings.Contains(name, " "):
				if !files[strings.TrimSuffix(name, "/")] {
					t.Errorf("%s names %s, which does not exist", p.name, name)
				}
			}
			if m := makeTarget.FindStringSubmatch(name); m != nil && !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names the target %s, which the Makefile does not have", p.name, m[1])
			}
		}
	}
}

// checkIdentifier checks that a package of the repository has the words of an
// identifier such as run.Start.InputFor.
func checkIdentifier(t *testing.T, p page, name string, files map[string]bool) {
	t.Helper()
	m := identifier.FindStringSubmatch(name)
	var source strings.Builder
	for file := range files {
		if path.Base(path.Dir(file)) == m[1] && strings.HasSuffix(file, ".go") {
			source.WriteString(readPage(t, file).text)
		}
	}
	for word := range strings.SplitSeq(m[2][1:], ".") {
		if !regexp.MustCompile(`\b` + word + `\b`).MatchString(source.String()) {
			t.Errorf("%s names %s, and package %s has no %s", p.name, name, m[1], word)
		}
	}
}

// checkGoTest checks that the package of a command exists, and that each
// alternative of its -run matches a test there.
func checkGoTest(t *testing.T, p page, command string, tests map[string][]string) {
	t.Helper()
	m := goTest.FindStringSubmatch(command)
	dir := strings.TrimPrefix(strings.TrimPrefix(m[1], "./"), ".")
	var here []string
	for of, names := range tests {
		if of == dir || m[2] != "" && strings.HasPrefix(of, dir) {
			here = append(here, names...)
		}
	}
	if len(here) == 0 {
		t.Errorf("%s: %s: no tests there", p.name, command)
	}
	for run := range strings.SplitSeq(m[3], "|") {
		one, err := regexp.Compile(run)
		if err != nil || !slices.ContainsFunc(here, one.MatchString) {
			t.Errorf("%s: %s: no test matches %s (%v)", p.name, command, run, err)
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)

// sources returns the files and directories of the repository, and the tests of
// each directory.
func sources(t *testing.T) (files map[string]bool, tests map[string][]string) {
	t.Helper()
	files, tests = map[string]bool{}, map[string][]string{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || name == "bin" || name == ".tmp") {
			return fs.SkipDir
		}
		files[name] = true
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(filepath.Join("..", name))
		for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
			tests[path.Dir(name)] = append(tests[path.Dir(name)], m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, tests
}

// Bounds on the sentences and the size of a page.
const (
	maxMedian  = 17 // words of the median sentence
	maxP90     = 30 // words, for nine sentences in ten
	maxColumns = 80
	maxReadme  = 120 // lines
	maxArch    = 150 // lines
)

// TestPagesProse: the sentences and lines of a page are short. README and
// ARCHITECTURE are short as a whole.
func TestPagesProse(t *testing.T) {
	for _, p := range pages(t) {
		_, prose := p.blocks()
		for i, line := range prose {
			if len([]rune(line)) > maxColumns && !strings.HasPrefix(line, "|") && !strings.Contains(line, "://") {
				t.Errorf("%s:%d: %d columns, want at most %d", p.name, i+1, len([]rune(line)), maxColumns)
			}
		}
		words := sentences(prose)
		if len(words) == 0 {
			continue
		}
		slices.Sort(words)
		if m := words[len(words)/2]; m > maxMedian {
			t.Errorf("%s: the median sentence has %d words, want at most %d", p.name, m, maxMedian)
		}
		if n := words[len(words)*9/10]; n > maxP90 {
			t.Errorf("%s: one sentence in ten has %d words or more, want at most %d", p.name, n, maxP90)
		}
	}
	for name, most := range map[string]int{"README.md": maxReadme, "ARCHITECTURE.md": maxArch} {
		if n := strings.Count(readPage(t, name).text, "\n"); n > most {
			t.Errorf("%s has %d lines, want at most %d", name, n, most)
		}
	}
}

var sentenceEnd = regexp.MustCompile(`[.?!:]\)?\**\s+`)

// sentences returns the number of words of each sentence. It leaves out tables,
// headings and sentences of one word.
func sentences(prose []string) (words []int) {
	var paragraph []string
	flush := func() {
		for _, s := range sentenceEnd.Split(strings.Join(paragraph, " ")+" ", -1) {
			if n := len(strings.Fields(s)); n > 1 {
				words = append(words, n)
			}
		}
		paragraph = nil
	}
	item := regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	for _, line := range prose {
		line = link.ReplaceAllStringFunc(line, func(s string) string { return s[1:strings.Index(s, "](")] })
		switch {
		case strings.TrimSpace(line) == "", line[0] == '|', line[0] == '#':
			flush()
			continue
		case item.MatchString(line):
			flush()
			line = item.ReplaceAllString(line, "")
		}
		paragraph = append(paragraph, strings.TrimSpace(line))
	}
	flush()
	return words
}
