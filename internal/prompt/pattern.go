package prompt

import (
	"errors"
	"path"
	"strings"
	"unicode"
)

// anyDepth matches any number of directories, including none.
const anyDepth = "**"

// split checks a pattern and returns its elements.
func split(pattern string) ([]string, error) {
	if path.IsAbs(pattern) {
		return nil, errors.New("must be relative to the workdir, not absolute")
	}
	if strings.ContainsFunc(pattern, unicode.IsControl) {
		return nil, errors.New("must not contain control characters")
	}
	var elems []string
	for e := range strings.SplitSeq(pattern, "/") {
		if e == ".." {
			return nil, errors.New("must not contain .., which may lead out of the workdir")
		}
		if _, err := path.Match(e, ""); err != nil {
			return nil, err
		}
		repeated := e == anyDepth && len(elems) > 0 && elems[len(elems)-1] == anyDepth
		if e != "" && e != "." && !repeated {
			elems = append(elems, e)
		}
	}
	if len(elems) == 0 {
		return nil, errors.New("must not be empty")
	}
	if elems[len(elems)-1] == anyDepth {
		elems = append(elems, "*")
	}
	return elems, nil
}

func hasMeta(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// matches reports whether one element of a checked pattern matches a name.
func matches(elem, name string) bool {
	if name[0] == '.' && elem[0] != '.' || strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	ok, _ := path.Match(elem, name)
	return ok
}
