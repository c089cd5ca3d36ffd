package memory

import (
	"strings"
	"time"
	"unicode"
)

// limit is how many characters of a task and of a result are kept.
const limit = 1000

const (
	heading = "## "
	nothing = "(none)"
)

// Entry is one finished run.
type Entry struct {
	// when it ended; kept as UTC, to the second
	Time   time.Time
	Task   string
	Result string
}

// String is the entry's text. A blank task or result is "(none)", a long one
// ends with "..." where it was cut.
//
// A line of the result, other than its first, is given a backslash if, after
// blanks and characters that do not show, it
//   - begins with #, a fence (``` or ~~~), ---, ===, ***, ___, **Task:** or **Result:**
//   - or has nothing but -, =, *, _ and blanks: an underline of any length would make the line above it
//     a heading, and marks with blanks between them are a separator.
//
// Fences are among them since a cut may have taken the one that closes. What
// stands inside a list or a quotation cannot be taken for something outside,
// and is left alone, as are tags. The first line stands behind **Result:**, and
// the task is one line behind **Task:**, where nothing begins.
func (e Entry) String() string {
	task := strings.ReplaceAll(cut(clean(e.Task)), "\n", " ")
	lines := strings.Split(cut(clean(e.Result)), "\n")
	for i, line := range lines[1:] {
		lines[i+1] = guard(line)
	}
	return heading + e.Time.UTC().Format(
		time.RFC3339,
	) + "\n**Task:** " + task + "\n**Result:** " + strings.Join(
		lines,
		"\n",
	) + "\n\n"
}

// clean makes UTF-8 of a text, with newlines for all line breaks of Unicode.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.NewReplacer(
		"\r\n",
		"\n",
		"\r",
		"\n",
		"\v",
		"\n",
		"\f",
		"\n",
		"\u0085",
		"\n",
		"\u2028",
		"\n",
		"\u2029",
		"\n",
	).Replace(
		s,
	)
	if strings.TrimSpace(s) == "" {
		return nothing
	}
	return s
}

func cut(s string) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + "..."
		}
		n++
	}
	return s
}

// guard takes the meaning of its own from a line that has one.
func guard(line string) string {
	i := strings.IndexFunc(line, shows)
	if i < 0 || !means(line[i:]) {
		return line
	}
	return line[:i] + `\` + line[i:]
}

// shows reports whether a reader sees a character.
func shows(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

func means(s string) bool {
	for _, mark := range []string{"#", "```", "~~~", "---", "===", "***", "___", "**Task:**", "**Result:**"} {
		if strings.HasPrefix(s, mark) {
			return true
		}
	}
	return strings.IndexFunc(s, func(r rune) bool { return shows(r) && !strings.ContainsRune("-=*_", r) }) < 0
}
