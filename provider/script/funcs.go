package script

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"text/template"
)

// funcs returns the functions of templates, besides those of text/template.
func funcs() template.FuncMap {
	return template.FuncMap{
		"add":      add,
		"contains": func(part, text string) bool { return strings.Contains(text, part) },
		"count":    count,
		"default":  orDefault,
		"first":    first,
		"fromJSON": fromJSON,
		"grep":     grep,
		"indent":   indent,
		"join":     join,
		"json":     toJSON,
		"lines":    lines,
		"lower":    strings.ToLower,
		"seq":      seq,
		"sub":      func(a, b int) int { return a - b },
		"trim":     strings.TrimSpace,
		"upper":    strings.ToUpper,
		"words":    strings.Fields,
	}
}

// match is a line that grep found. N counts from 1.
type match struct {
	N    int
	Text string
}

// String returns "N: text".
func (m match) String() string { return fmt.Sprintf("%d: %s", m.N, m.Text) }

// grep returns the lines in which a match begins. If the match has a group, the
// beginning of the first group counts.
func grep(pattern, text string) ([]match, error) {
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		return nil, err
	}
	var found []match
	// Line n begins at offset begin.
	n, begin := 1, 0
	for from := 0; from <= len(text); {
		at := re.FindStringSubmatchIndex(text[from:])
		if at == nil {
			break
		}
		start, grouped := from+at[0], len(at) > 2 && at[2] >= 0
		if grouped {
			start = from + at[2]
		}
		line := strings.LastIndexByte(text[:start], '\n') + 1
		n += strings.Count(text[begin:line], "\n")
		begin = line
		whole, _, _ := strings.Cut(text[line:], "\n")
		if len(found) == 0 || found[len(found)-1].N != n {
			found = append(found, match{N: n, Text: whole})
		}
		if grouped && line > from {
			// The next match may begin in this line.
			from = line
		} else {
			from = line + len(whole) + 1
		}
	}
	return found, nil
}

func count(pattern, text string) (int, error) {
	found, err := grep(pattern, text)
	return len(found), err
}

// lines splits a text. A line break at its end does not begin another line.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// first returns at most n elements of a list.
func first(n int, list any) (any, error) {
	n = max(n, 0)
	switch l := list.(type) {
	case []string:
		return l[:min(n, len(l))], nil
	case []file:
		return l[:min(n, len(l))], nil
	case []result:
		return l[:min(n, len(l))], nil
	case []match:
		return l[:min(n, len(l))], nil
	default:
		return nil, notAList("first", list)
	}
}

func join(separator string, list any) (string, error) {
	switch l := list.(type) {
	case []string:
		return strings.Join(l, separator), nil
	case []file:
		return joinAll(separator, l), nil
	case []result:
		return joinAll(separator, l), nil
	case []match:
		return joinAll(separator, l), nil
	default:
		return "", notAList("join", list)
	}
}

// notAList is the error of a function that takes a list.
func notAList(function string, got any) error {
	return fmt.Errorf("%s: LIST must be lines, words, files, results or matches, got %T", function, got)
}

func joinAll[T fmt.Stringer](separator string, list []T) string {
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i] = e.String()
	}
	return strings.Join(texts, separator)
}

func indent(n int, text string) string {
	margin := strings.Repeat(" ", max(n, 0))
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

func orDefault(value, x any) any {
	if truth, ok := template.IsTrue(x); ok && truth {
		return x
	}
	return value
}

func add(ns ...int) int {
	sum := 0
	for _, n := range ns {
		sum += n
	}
	return sum
}

func seq(n int) ([]int, error) {
	if n > maxCalls {
		return nil, fmt.Errorf("seq: N must be at most %d, got %d", maxCalls, n)
	}
	ns := make([]int, max(n, 0))
	for i := range ns {
		ns[i] = i + 1
	}
	return ns, nil
}

// fromJSON returns the value of a JSON text.
func fromJSON(text string) (v any, err error) { return v, json.Unmarshal([]byte(text), &v) }

func toJSON(x any) (string, error) {
	b, err := json.Marshal(x)
	return string(b), err
}
