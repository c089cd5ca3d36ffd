package prompt

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makeTree returns a directory with files of each kind: hidden, binary, links
// in and out, loops and a pipe. There are files beside the directory too.
func makeTree(tb testing.TB) string {
	tb.Helper()
	top := tb.TempDir()
	dir := filepath.Join(top, "tree")
	try := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	for _, d := range []string{"a/b/c", ".git", "bin"} {
		try(os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	for _, f := range []string{
		"x.go", "x_test.go", ".env", "a/y.go", "a/b/z.go", "a/b/c/w.go", "a/b/c/.secret.go", ".git/g.go",
		"a/odd\nname.go", "../outside.go",
	} {
		try(os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600))
	}
	try(os.WriteFile(filepath.Join(dir, "bin/tool.go"), []byte("\x7fELF\x00"), 0o600))
	for link, to := range map[string]string{
		"in.go": "a/y.go", "out.go": "../outside.go", "abs.go": filepath.Join(top, "outside.go"),
		"nowhere.go": "none.go", "loop.go": "loop.go", "up": "..", "a/around": "..", "sub": "a/b",
	} {
		try(os.Symlink(to, filepath.Join(dir, link)))
	}
	try(os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600))
	try(os.Link(filepath.Join(top, "secret"), filepath.Join(dir, "bin/hard.txt")))
	try(syscall.Mkfifo(filepath.Join(dir, "pipe.go"), 0o600))
	return dir
}

// TestReadFiles: ReadFiles returns the files that patterns match, in order, or
// an error. It reads no file outside of the workdir. The table has the patterns
// of a call in one text, separated by blanks.
func TestReadFiles(t *testing.T) {
	dir := makeTree(t)
	for _, tt := range []struct{ patterns, want string }{
		{"x.go", "x.go"},
		{"./a//y.go", "a/y.go"},
		{"*.go", "in.go x.go x_test.go"},
		{"x*.go ?.go x.go [x]*", "x.go x_test.go"},
		{"*/*.go", "a/y.go sub/z.go"},
		{"a/*/*.go", "a/around/in.go a/around/x.go a/around/x_test.go a/b/z.go"},
		{"**/*.go", "a/b/c/w.go a/b/z.go a/y.go in.go x.go x_test.go"},
		{"**/**/z.go", "a/b/z.go"},
		{"a/**", "a/b/c/w.go a/b/z.go a/y.go"},
		{"**/b/**/*.go", "a/b/c/w.go a/b/z.go"},
		{"sub/*.go", "sub/z.go"},
		{".e*", ".env"},
		{".git/*", ".git/g.go"},
		{"bin/tool.go bin/*", ""},
		{"none/*.go x.go/* *.rs", ""},
		{"bin/*.txt **/*.txt", ""},
		{"bin/hard.txt", "error: has another name (a hard link), which may be outside of the workdir"},
		{"up/*.go", "error: up: path escapes from parent"},
		{"*/outside.go", ""},
		{"out.go", "error: path escapes from parent"},
		{"abs.go", "error: path escapes from parent"},
		{"nowhere.go", "error: no such file or directory"},
		{"loop.go", "error: too many levels of symbolic links"},
		{"pipe.go", "error: is not a regular file"},
		{"a", "error: is not a regular file"},
		{"none.go", "error: no such file or directory"},
		{"../outside.go", "error: must not contain .., which may lead out of the workdir"},
		{"a/../x.go", "error: must not contain .., which may lead out of the workdir"},
		{"**/../*.go", "error: must not contain .., which may lead out of the workdir"},
		{"/etc/passwd", "error: must be relative to the workdir, not absolute"},
		{"[x.go", "error: syntax error in pattern"},
		{"a/[]/x.go", "error: syntax error in pattern"},
		{".", "error: must not be empty"},
		{"a/odd\nname.go", "error: must not contain control characters"},
	} {
		t.Run(tt.patterns, func(t *testing.T) {
			patterns := strings.Split(tt.patterns, " ")
			files, _, err := ReadFiles(dir, patterns)
			var got []string
			for _, f := range files {
				got = append(got, f.Path)
			}
			text := strings.Join(got, " ")
			if err != nil {
				_, text, _ = strings.Cut(err.Error(), " in "+dir+": ")
				text = "error: " + text
			}
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("files or error (-want +got):\n%s", diff)
			}
		})
	}
	if _, _, err := ReadFiles(dir, []string{""}); err == nil || !strings.Contains(err.Error(), "must not be empty") {
		t.Errorf("an empty pattern: error %v, want that it must not be empty", err)
	}
}

// TestReadFilesIsBounded: a file above 8 MiB, and files above 32 MiB together,
// are an error. A binary file is left out, whatever its size.
func TestReadFilesIsBounded(t *testing.T) {
	dir := t.TempDir()
	size := func(name string, n int, fill byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{fill}, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	size("large.txt", maxContent+1, 'x')
	size("large.bin", maxContent+1, 0)
	if _, _, err := ReadFiles(dir, []string{"large.txt"}); err == nil ||
		err.Error() != "large.txt: is larger than 8 MiB" {
		t.Errorf("a file above the limit: error %v, want that it is larger than 8 MiB", err)
	}
	if files, _, err := ReadFiles(dir, []string{"*.bin"}); len(files) != 0 || err != nil {
		t.Errorf("a binary file above the limit: got %d files, error %v, want none", len(files), err)
	}
	for _, name := range []string{"1", "2", "3", "4"} {
		size(name+".md", maxContent, 'x')
	}
	if files, _, err := ReadFiles(dir, []string{"*.md"}); len(files) != 4 || err != nil {
		t.Errorf("files at the limit: got %d, error %v, want 4", len(files), err)
	}
	size("5.md", 1, 'x')
	if _, _, err := ReadFiles(dir, []string{"*.md"}); err == nil ||
		err.Error() != "5.md: files are larger than 32 MiB together: match fewer files" {
		t.Errorf("one byte above the limit of all files: error %v, want that they are too large", err)
	}
}

// TestFindIsBounded: the search for one pattern reads at most maxEntries
// directory entries.
func TestFindIsBounded(t *testing.T) {
	root, err := os.OpenRoot(makeTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	g := &glob{root: root, found: map[string]bool{}, visited: map[place]bool{}, entries: maxEntries - 10}
	if err := g.expand(".", []string{anyDepth, "*.go"}); err == nil || err.Error() != errTooMany.Error() {
		t.Errorf("got error %v, want %v", err, errTooMany)
	}
}

// FuzzFind: find returns regular files below its root only, for any pattern.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{
		"*.go", "**/*", "../*", "a/**/**/b", "[a-", "/**", "up/**", "\\*", "**/..", "loop.go/**",
	} {
		f.Add(seed)
	}
	root, err := os.OpenRoot(makeTree(f))
	if err != nil {
		f.Fatal(err)
	}
	defer root.Close()
	f.Fuzz(func(t *testing.T, pattern string) {
		found := map[string]bool{}
		if find(root, pattern, found) != nil {
			return
		}
		for name := range found {
			if !filepath.IsLocal(name) || filepath.Base(name) == "outside.go" {
				t.Errorf("%q found %q, which is outside of the root", pattern, name)
			}
			if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%q found %q, error %v, want a regular file", pattern, name, err)
			}
		}
	})
}
