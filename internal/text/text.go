// Package text shortens texts to a number of bytes, and counts their lines. A
// shortened text is valid UTF-8 if the text is.
package text

import "strings"

// Truncate returns s if it has at most limit bytes. Of a longer s it returns
// the Head, and "…" behind it. The mark is not counted.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return Head(s, limit) + "…"
}

// Head returns at most the first limit bytes of s. It leaves out a character
// that the cut would split.
func Head(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// Line returns the number of the line that has the byte at an offset. The first
// line is 1. A byte "\n" belongs to the line that it ends.
func Line(s string, offset int) int {
	return 1 + strings.Count(s[:max(0, min(offset, len(s)))], "\n")
}
