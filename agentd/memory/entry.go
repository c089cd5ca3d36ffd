package memory

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxCharacters bounds the task and the result of an entry, each.
const maxCharacters = 1000

const (
	heading = "## "
	blank   = "(none)"
)

// Entry is one finished run.
type Entry struct {
	// Time is the end of the run. The log keeps it as UTC, to the second.
	Time   time.Time
	Task   string
	Result string
}

// String returns the entry's text. The task is one line. A blank task or result
// is "(none)". A task or result that was cut ends with "...".
//
// Each line of the result but the first gets a backslash in two cases, judged
// after leading blanks and invisible characters:
//   - The line begins with #, a fence (``` or ~~~), ---, ===, ***, ___,
//     **Task:** or **Result:**.
//   - The line has only -, =, *, _, blanks and invisible characters. An
//     underline of any length makes the line above a heading, and marks with
//     blanks between them make a separator.
//
// Fences are in the list because a cut may have removed the closing one. Text
// inside a list or a quotation stays inside, and so it is left alone, as are
// tags. The task and the first line of the result need no backslash: they stand
// behind **Task:** and **Result:**, where no block begins.
func (e Entry) String() string {
	task := strings.ReplaceAll(truncate(clean(e.Task)), "\n", " ")
	lines := strings.Split(truncate(clean(e.Result)), "\n")
	for i, line := range lines[1:] {
		lines[i+1] = escape(line)
	}
	return heading + e.Time.UTC().Format(time.RFC3339) +
		"\n**Task:** " + task +
		"\n**Result:** " + strings.Join(lines, "\n") + "\n\n"
}

// lineBreaks turns every line break of Unicode into a newline.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n",
	"\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// clean returns s as valid UTF-8 with newlines as its only line breaks. For a
// blank s it returns "(none)".
func clean(s string) string {
	s = lineBreaks.Replace(strings.ToValidUTF8(s, "\uFFFD"))
	if strings.TrimSpace(s) == "" {
		return blank
	}
	return s
}

// truncate bounds s in characters, as the format says. Package internal/text
// counts bytes.
func truncate(s string) string {
	n := 0
	for i := range s {
		if n == maxCharacters {
			return s[:i] + "..."
		}
		n++
	}
	return s
}

// escape puts a backslash before a line that would begin a Markdown block.
func escape(line string) string {
	i := strings.IndexFunc(line, visible)
	if i < 0 || !beginsBlock(line[i:]) {
		return line
	}
	return line[:i] + `\` + line[i:]
}

// visible reports whether a reader sees a character.
func visible(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// beginsBlock reports whether a line that starts with s begins a Markdown block
// or a part of an entry.
func beginsBlock(s string) bool {
	marks := []string{"#", "```", "~~~", "---", "===", "***", "___", "**Task:**", "**Result:**"}
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(s, mark) }) ||
		!strings.ContainsFunc(s, func(r rune) bool { return visible(r) && !strings.ContainsRune("-=*_", r) })
}
