package memory

import "strings"

// Count returns the number of entries in a log's text.
func Count(text string) int { return len(starts(text)) }

// Last returns the last n entries of a log's text, byte for byte. An n of 0
// stands for all. Text before the first entry is left out.
func Last(text string, n int) string {
	at := starts(text)
	if len(at) == 0 {
		return ""
	}
	if n <= 0 || n > len(at) {
		n = len(at)
	}
	return text[at[len(at)-n]:]
}

// withoutOldest returns a log's text with only the last keep entries. Text
// before the first entry stays, because people wrote it.
func withoutOldest(text string, keep int) (rest string, removed int) {
	at := starts(text)
	removed = len(at) - keep
	if removed <= 0 {
		return text, 0
	}
	return text[:at[0]] + text[at[removed]:], removed
}

// joined appends more to a log's text, on a new line.
func joined(text, more string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + more
}

// starts returns the offsets at which the entries of a text begin.
func starts(text string) []int {
	var at []int
	offset := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, heading) {
			at = append(at, offset)
		}
		offset += len(line)
	}
	return at
}
