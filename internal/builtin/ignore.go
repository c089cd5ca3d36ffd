package builtin

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRule is a line of a .gitignore file.
type ignoreRule struct {
	// base is the directory of the file with a slash behind it, "" for the
	// working directory.
	base string
	// glob matches paths below base.
	glob string
	// dirs: the rule is for directories alone.
	dirs bool
	// keep: the entries that match are not ignored.
	keep bool
}

// ignored reports whether the rules ignore an entry of a directory that they do
// not ignore. The last rule that matches decides, as in git.
func ignored(rules []ignoreRule, name string, dir bool) bool {
	for _, r := range slices.Backward(rules) {
		if r.matches(name, dir) {
			return !r.keep
		}
	}
	return false
}

func (r ignoreRule) matches(name string, dir bool) bool {
	below, ok := strings.CutPrefix(name, r.base)
	return ok && (dir || !r.dirs) && doublestar.MatchUnvalidated(r.glob, below)
}

// withIgnoreFile returns the rules and those of the .gitignore file of a
// directory. A file that cannot be read has no rules.
func withIgnoreFile(root *os.Root, dir string, rules []ignoreRule) []ignoreRule {
	b, _, err := content(root, path.Join(dir, ".gitignore"))
	if err != nil {
		return rules
	}
	base := ""
	if dir != "." {
		base = dir + "/"
	}
	rules = slices.Clip(rules) // directories beside this one share them
	for line := range strings.Lines(strings.TrimPrefix(string(b), "\uFEFF")) {
		if r, ok := parseIgnore(base, line); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// parseIgnore makes a rule of a line. A blank line, a comment and a pattern
// that is not valid make none.
func parseIgnore(base, line string) (ignoreRule, bool) {
	r := ignoreRule{base: base}
	line = trimIgnore(line)
	if line == "" || line[0] == '#' {
		return r, false
	}
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.dirs = strings.CutSuffix(line, "/")
	if !strings.Contains(line, "/") {
		line = "**/" + line
	}
	line = strings.TrimPrefix(line, "/")
	if strings.HasSuffix(line, "/**") {
		line += "/*" // below the directory, and not the directory
	}
	r.glob = escapeBraces(line)
	return r, doublestar.ValidatePattern(r.glob)
}

// trimIgnore removes the end of a line and the spaces before it. A space after
// a backslash stays.
func trimIgnore(line string) string {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	short := strings.TrimRight(line, " ")
	slashes := len(short) - len(strings.TrimRight(short, `\`))
	if len(short) < len(line) && slashes%2 == 1 {
		short += " "
	}
	return short
}

// escapeBraces returns a pattern of git as one of doublestar, in which braces
// are special.
func escapeBraces(pattern string) string {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			out.WriteByte('\\')
			if i++; i == len(pattern) {
				continue
			}
		case '{', '}':
			out.WriteByte('\\')
		}
		out.WriteByte(pattern[i])
	}
	return out.String()
}
