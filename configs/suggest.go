package configs

import (
	"fmt"
	"slices"
	"strings"
)

// unknownKey returns the message for a key that is not known. It suggests the
// most similar known one.
func unknownKey(known []string, key string) string {
	if near := Nearest(known, key); near != "" {
		return fmt.Sprintf("unknown key; did you mean %q?", near)
	}
	return "unknown key"
}

// names returns the names of the fields and of their tables.
func names(fields map[string]any) []string {
	var all []string
	for f := range fields {
		all = append(all, f)
		for i, c := range f {
			if c == '.' {
				all = append(all, f[:i])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Nearest returns the name that differs least from key, or that has the same
// last part after a dot. It returns "" if no name is near.
func Nearest(names []string, key string) string {
	best, least := "", mostTypos(key)+1
	for _, name := range names {
		d := distance(key, name)
		last := distance(leaf(key), leaf(name))
		if last == 0 {
			d = min(d, 1)
		} else if last <= mostTypos(leaf(key)) && len(leaf(key))+len(leaf(name)) < len(key)+len(name) {
			d = min(d, 1+last)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// mostTypos is the largest distance of a name that is near. A name that differs
// in every byte is not near.
func mostTypos(key string) int { return min(max(2, len(key)/3), len(key)-1) }

func leaf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// distance returns the number of bytes to insert, delete or replace that turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
