// Package text shortens texts to a number of bytes. Its results are valid UTF-8
// if the texts are.
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
