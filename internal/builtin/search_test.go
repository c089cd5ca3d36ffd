package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSearchFiles: search_files returns the matching lines with their places,
// in the order of the files. It leaves out binary files, ignored files and the
// directory .git. Malformed arguments are errors.
func TestSearchFiles(t *testing.T) {
	t.Parallel()
	dir := writeTree(t, map[string]string{
		"main.go":       "package main\n\nfunc main() {}\n",
		"cmd/run.go":    "package cmd\r\n\r\nfunc Run() {}\r\n",
		"cmd/run.md":    "func is a word",
		"cmd/deep/d.go": "func deep() {}\n",
		"vendor/v.go":   "func vendored() {}\n",
		".gitignore":    "vendor/\n",
		".git/config":   "func\n",
		".hidden":       "func hidden\n",
		"image.png":     "func\x00\n",
		"latin":         "func \xe9\n",
		"long":          "find " + strings.Repeat("é", 300) + "\n",
	})
	for _, tt := range []toolCall{
		{
			"all files",
			args{"pattern": "func"},
			".hidden:1: func hidden\ncmd/deep/d.go:1: func deep() {}\ncmd/run.go:3: func Run() {}\n" +
				"cmd/run.md:1: func is a word\nlatin:1: func \uFFFD\nmain.go:3: func main() {}", "",
		},
		{
			"a glob without a slash",
			args{"pattern": "func", "glob": "*.go"},
			"cmd/deep/d.go:1: func deep() {}\ncmd/run.go:3: func Run() {}\nmain.go:3: func main() {}", "",
		},
		{
			"a glob with directories",
			args{"pattern": "func", "glob": "cmd/*.{go,md}"},
			"cmd/run.go:3: func Run() {}\ncmd/run.md:1: func is a word", "",
		},
		{
			"a directory",
			args{"pattern": "func", "path": "./cmd/", "glob": "**/*.go"},
			"cmd/deep/d.go:1: func deep() {}\ncmd/run.go:3: func Run() {}", "",
		},
		{
			"a glob below a directory",
			args{"pattern": "func", "path": "cmd", "glob": "deep/*"},
			"cmd/deep/d.go:1: func deep() {}", "",
		},
		{"a file", args{"pattern": "func", "path": "cmd/run.md"}, "cmd/run.md:1: func is a word", ""},
		{
			"an ignored directory by name",
			args{"pattern": "func", "path": "vendor"},
			"vendor/v.go:1: func vendored() {}", "",
		},
		{
			"the end of a line",
			args{"pattern": `\{\}$`, "path": "cmd/run.go"},
			"cmd/run.go:3: func Run() {}", "",
		},
		{"no case", args{"pattern": "(?i)FUNC RUN"}, "cmd/run.go:3: func Run() {}", ""},
		{
			"a limit",
			args{"pattern": "func", "limit": "2"},
			".hidden:1: func hidden\ncmd/deep/d.go:1: func deep() {}\n" +
				"... [more lines match: these are the first 2]", "",
		},
		{
			"a limit above the matches",
			args{"pattern": "func", "limit": "6", "glob": "[!.]*"},
			"cmd/deep/d.go:1: func deep() {}\ncmd/run.go:3: func Run() {}\n" +
				"cmd/run.md:1: func is a word\nlatin:1: func \uFFFD\nmain.go:3: func main() {}", "",
		},
		{"a long line", args{"pattern": "find"}, "long:1: find " + strings.Repeat("é", 247) + "…", ""},
		{"no match", args{"pattern": "absent"}, "no matches", ""},

		{"no pattern", nil, "", "pattern is required"},
		{"an empty pattern", args{"pattern": ""}, "", "pattern is required"},
		{"a bad pattern", args{"pattern": "func("}, "", "invalid pattern: error parsing regexp: missing closing"},
		{"a bad glob", args{"pattern": "x", "glob": "[a"}, "", `invalid glob "[a"`},
		{"too many braces", args{"pattern": "x", "glob": strings.Repeat("{*,*}", 4)}, "", "glob has 4 groups"},
		{"a long glob", args{"pattern": "x", "glob": strings.Repeat("*", 201)}, "", "glob has 201 bytes"},
		{"a bad limit", args{"pattern": "x", "limit": "0"}, "", "limit must be >= 1"},
		{"no number", args{"pattern": "x", "limit": "many"}, "", `invalid limit "many"`},
		{"a path outside", args{"pattern": "x", "path": "../"}, "", "path escapes workdir"},
		{"an absolute path", args{"pattern": "x", "path": "/etc"}, "", "absolute paths are not allowed"},
		{"no such path", args{"pattern": "x", "path": "nowhere"}, "", "no such file or directory"},
		{"a binary file", args{"pattern": "x", "path": "image.png"}, "", "binary file detected"},
		{"an unknown argument", args{"pattern": "x", "artifact": "true"}, "", `unknown argument "artifact"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.check(t, searchFiles(), Call{Dir: dir})
		})
	}
}

// TestSearchStaysInside: search_files reads no file outside the working
// directory, also through a link, and reads regular files only.
func TestSearchStaysInside(t *testing.T) {
	t.Parallel()
	outside := writeTree(t, map[string]string{"secret": "found outside\n", "sub/secret": "found outside\n"})
	dir := writeTree(t, map[string]string{"a/inside": "found\n"})
	up, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"absolute":   filepath.Join(outside, "secret"),
		"relative":   filepath.Join(up, "secret"),
		"directory":  outside,
		"itself":     ".",
		"loop":       "loop",
		"link":       "a/inside",
		"proc":       "/proc/self/environ",
		".gitignore": filepath.Join(outside, "secret"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []toolCall{
		{"all", args{"pattern": "found|PATH"}, "a/inside:1: found\nlink:1: found", ""},
		{"a link to a file", args{"pattern": "found", "path": "absolute"}, "", "path escapes workdir"},
		{"a link to a directory", args{"pattern": "found", "path": "directory"}, "", "path escapes workdir"},
		{"a path through a link", args{"pattern": "found", "path": "directory/sub"}, "", "path escapes workdir"},
		{"a fifo", args{"pattern": "found", "path": "fifo"}, "", "not a regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.check(t, searchFiles(), Call{Dir: dir})
		})
	}
}

// TestSearchIgnoresAsGit: search_files searches the files that git would add,
// given the same .gitignore files.
func TestSearchIgnoresAsGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	tree := map[string]string{
		".gitignore": "\uFEFF*.log\n!keep.log\n# comment\n\n/root-only\nbuild/\ndoc/*.txt\n**/temp\na/**/z\nall/**\n" +
			"foo/*\n!foo/bar\n{brace}\n\\#hash\n\\!bang\nspaced   \nkept\\ \ncr\r\n" +
			"[ab]c\n[!x]y\nbad[\nend\\\n!\n/\nde\\{p\n",
		"sub/.gitignore":      "!*.log\nonly-here\n/top\n",
		"sub/deep/.gitignore": "*\n!.gitignore\n!one\n",
	}
	for _, dir := range []string{
		"", "sub/", "sub/deep/", "doc/", "doc/x/", "a/b/c/", "a/", "all/", "foo/", "foo/bar/",
	} {
		for _, name := range []string{
			"x.log", "keep.log", "root-only", "build", "n.txt", "z", "{brace}", "brace", "#hash", "!bang", "spaced",
			"kept ", "kept", "cr", "ac", "xy", "zy", "bad[", "end", "only-here", "top", "one", "de{p", "temp/t",
			"built/b", "plain",
		} {
			tree[dir+name] = "marker\n"
		}
	}
	dir := writeTree(t, tree)
	for _, path := range []string{".", "sub", "sub/deep", "doc"} {
		got, err := use(t.Context(), searchFiles(), Call{
			Dir: dir, Arguments: args{"pattern": "^marker$", "path": path, "limit": "1000"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for line := range strings.Lines(got) {
			names = append(names, strings.TrimSuffix(strings.TrimSpace(line), ":1: marker"))
		}
		want := wouldAdd(t, dir, path)
		if len(want) == 0 || len(want) == len(tree) {
			t.Fatalf("%s: git would add %d of %d files, want some and not all", path, len(want), len(tree))
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(names))); diff != "" {
			t.Errorf("%s: files (-git +search_files):\n%s", path, diff)
		}
	}
}

// wouldAdd returns the files below a path that git would add, sorted, without
// the files .gitignore.
func wouldAdd(t *testing.T, dir, path string) []string {
	t.Helper()
	git := func(arguments ...string) string {
		c := exec.CommandContext(t.Context(), "git", arguments...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git %v: %v", arguments, err)
		}
		return string(out)
	}
	git("init", "--quiet")
	var names []string
	for name := range strings.SplitSeq(git("ls-files", "-z", "--others", "--exclude-standard", path), "\x00") {
		if name != "" && filepath.Base(name) != ".gitignore" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestSearchLimits: search_files skips large files. It ends when its result is
// large, and when its context ends.
func TestSearchLimits(t *testing.T) {
	t.Parallel()
	dir := writeTree(t, map[string]string{"small": strings.Repeat("found "+strings.Repeat("x", 400)+"\n", 1000)})
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "found in a large file")
	if err := errors.Join(f.Truncate(maxFile+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	c := Call{Dir: dir, Arguments: args{"pattern": "found", "limit": "1000000"}}
	got, err := use(t.Context(), searchFiles(), c)
	if err != nil || len(got) > maxMatches+1000 || strings.Contains(got, "large") ||
		!strings.HasSuffix(got, "\n... [more lines match: these are the first 246]") {
		t.Errorf("got %d bytes that end in %q, error %v; want a note after 246 lines",
			len(got), got[max(0, len(got)-100):], err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := use(ctx, searchFiles(), c); !errors.Is(err, context.Canceled) || got != "" {
		t.Errorf("stopped: got %q and error %v, want %v", got, err, context.Canceled)
	}
}
