package prompt

import (
	"errors"
	"path"
	"strings"
	"unicode"
)

const deep = "**" // any number of directories, also none

// split checks a pattern and returns its elements.
func split(pattern string) ([]string, error) {
	if path.IsAbs(pattern) {
		return nil, errors.New("is absolute: patterns are relative to the workdir")
	}
	if strings.ContainsFunc(pattern, unicode.IsControl) {
		return nil, errors.New("has a control character")
	}
	var parts []string
	for p := range strings.SplitSeq(pattern, "/") {
		if p == ".." {
			return nil, errors.New("leads out of the workdir: .. is not allowed")
		}
		if _, err := path.Match(p, ""); err != nil {
			return nil, err
		}
		again := p == deep && len(parts) > 0 && parts[len(parts)-1] == deep
		if p != "" && p != "." && !again {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil, errors.New("is empty")
	}
	if parts[len(parts)-1] == deep {
		parts = append(parts, "*")
	}
	return parts, nil
}

func hasMeta(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// matches applies one element of a pattern, which split has checked, to a name.
func matches(part, name string) bool {
	if name[0] == '.' && part[0] != '.' || strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	ok, _ := path.Match(part, name)
	return ok
}
