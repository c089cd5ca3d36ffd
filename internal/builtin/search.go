package builtin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/provider"
)

const (
	// defaultMatches is the number of lines that search_files returns
	// without a limit.
	defaultMatches = 200
	// maxMatch bounds the bytes of a line that search_files returns.
	maxMatch = 500
	// maxMatches bounds the bytes of the lines that search_files returns.
	maxMatches = 100 << 10
	// maxGlob and maxBraces bound a glob, in bytes and in groups such as
	// {a,b}. Each group multiplies the time that a match takes.
	maxGlob, maxBraces = 200, 3
)

func searchFiles() Tool {
	return Tool{
		Definition: define("search_files",
			"Search the files below the working directory for lines that match a regular expression. "+
				"Returns one match per line in the format 'path:line: text'. "+
				"Files that .gitignore names, the directory .git and binary files are passed over.",
			map[string]provider.ToolParameter{
				"pattern": required(`The regular expression (RE2 syntax). "(?i)" at its beginning ignores case.`),
				"path": optional("Relative path to the directory or file to search. " +
					`Defaults to ".", the working directory.`),
				"glob":  optional(`Search only files that match, such as "*.go" (in any directory) or "cmd/**/*.go".`),
				"limit": optional("Maximum number of matching lines to return. Defaults to 200."),
			}),
		Effect: run.ToolReads,
		Run: func(ctx context.Context, c Call) (string, error) {
			s, err := newSearch(c)
			if err != nil {
				return "", err
			}
			return below(c.Dir, cmp.Or(c.Arguments["path"], "."), func(root *os.Root, name string) (string, error) {
				s.root, s.top = root, name
				if err := s.start(ctx); err != nil {
					return "", err
				}
				return s.result(ctx), context.Cause(ctx)
			})
		},
	}
}

// search is a search at work.
type search struct {
	root  *os.Root
	top   string
	rx    *regexp.Regexp
	glob  string
	limit int

	out   strings.Builder
	found int
	// more says that there is a match that is not in out.
	more bool
}

func newSearch(c Call) (*search, error) {
	pattern, glob := c.Arguments["pattern"], c.Arguments["glob"]
	if pattern == "" {
		return nil, errors.New("pattern is required")
	}
	rx, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("invalid pattern: %w", err)
	}
	switch {
	case len(glob) > maxGlob:
		return nil, fmt.Errorf("glob has %d bytes: want at most %d", len(glob), maxGlob)
	case strings.Count(glob, "{") > maxBraces:
		return nil, fmt.Errorf("glob has %d groups in braces: want at most %d", strings.Count(glob, "{"), maxBraces)
	case !doublestar.ValidatePattern(glob):
		return nil, fmt.Errorf("invalid glob %q: want a pattern such as **/*.go", glob)
	}
	if glob != "" && !strings.Contains(glob, "/") {
		glob = "**/" + glob
	}
	limit, err := positive(c, "limit", defaultMatches)
	return &search{rx: rx, glob: glob, limit: limit}, err
}

// start searches the file or directory at the top. It is searched even if it is
// ignored.
func (s *search) start(ctx context.Context) error {
	info, err := s.root.Stat(s.top)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		b, _, err := content(s.root, s.top)
		s.lines(ctx, s.top, b)
		return err
	}
	var rules []ignoreRule
	for i, c := range s.top {
		if c == '/' {
			rules = withIgnoreFile(s.root, s.top[:i], rules)
		}
	}
	if s.top != "." {
		rules = append(withIgnoreFile(s.root, ".", nil), rules...)
	}
	return s.directory(ctx, s.top, rules)
}

// directory searches the files of a directory and of those below it, in the
// order of their names. The rules are those of the directories above.
func (s *search) directory(ctx context.Context, dir string, rules []ignoreRule) error {
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if err != nil {
		return err
	}
	rules = withIgnoreFile(s.root, dir, rules)
	for _, e := range entries {
		if s.ended(ctx) {
			break
		}
		name := path.Join(dir, e.Name())
		if e.Name() == ".git" || ignored(rules, name, e.IsDir()) {
			continue
		}
		// What cannot be read is passed over: it is not what was asked
		// for.
		if e.IsDir() {
			_ = s.directory(ctx, name, rules)
		} else if s.wants(name) {
			s.file(ctx, name, e)
		}
	}
	return nil
}

// ended reports whether the search is to end.
func (s *search) ended(ctx context.Context) bool { return s.more || ctx.Err() != nil }

// wants reports whether the glob matches a file.
func (s *search) wants(name string) bool {
	if s.top != "." {
		name = strings.TrimPrefix(name, s.top+"/")
	}
	return s.glob == "" || doublestar.MatchUnvalidated(s.glob, name)
}

// file searches a file of a directory. A symbolic link is searched if it leads
// to a file in the working directory.
func (s *search) file(ctx context.Context, name string, e fs.DirEntry) {
	if !e.Type().IsRegular() && e.Type() != fs.ModeSymlink {
		return
	}
	if info, err := s.root.Stat(name); err != nil || info.Size() > maxFile {
		return
	}
	if b, _, err := content(s.root, name); err == nil {
		s.lines(ctx, name, b)
	}
}

// lines searches the lines of a file.
func (s *search) lines(ctx context.Context, name string, b []byte) {
	n := 0
	for line := range bytes.Lines(b) {
		if s.ended(ctx) {
			return
		}
		n++
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if s.rx.Match(line) {
			s.add(name, n, line)
		}
	}
}

func (s *search) add(name string, n int, line []byte) {
	if s.found == s.limit || s.out.Len() > maxMatches {
		s.more = true
		return
	}
	s.found++
	shown := text.Truncate(strings.ToValidUTF8(string(line), "\uFFFD"), maxMatch)
	fmt.Fprintf(&s.out, "%s:%d: %s\n", name, n, shown)
}

func (s *search) result(ctx context.Context) string {
	switch {
	case s.more:
		fmt.Fprintf(&s.out, "... [more lines match: these are the first %d]", s.found)
	case s.found == 0 && ctx.Err() == nil:
		return "no matches"
	}
	return strings.TrimSuffix(s.out.String(), "\n")
}
