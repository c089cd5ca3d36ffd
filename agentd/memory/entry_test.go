package memory_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/memory"
)

// noon returns 12:00 UTC plus 999 ns, in another time zone.
func noon() time.Time {
	return time.Date(2026, 3, 1, 13, 0, 0, 999, time.FixedZone("somewhere", 3600))
}

// head is the first line of an entry with the time noon.
const head = "## 2026-03-01T12:00:00Z\n"

// text returns an entry with the time noon, as a log has it.
func text(task, result string) string {
	return memory.Entry{Time: noon(), Task: task, Result: result}.String()
}

// TestEntry: the task is one line, the result keeps its lines, and both are cut
// to 1000 characters. No part of a result begins another entry.
func TestEntry(t *testing.T) {
	const breaks = "a\r\nb\rc\u0085d\u2028e\u2029f\vg\fh"
	long := strings.Repeat("x", 999)
	for _, tt := range []struct{ name, task, result, want string }{
		{"plain", "Review", "Fine.", "**Task:** Review\n**Result:** Fine.\n\n"},
		{"empty", "", "", "**Task:** (none)\n**Result:** (none)\n\n"},
		{"blank", " \t", "\r\n\n", "**Task:** (none)\n**Result:** (none)\n\n"},
		{"lines", "a\nb\n", "c\n\n d\n", "**Task:** a b \n**Result:** c\n\n d\n\n\n"},
		{"line breaks", breaks, breaks, "**Task:** a b c d e f g h\n**Result:** a\nb\nc\nd\ne\nf\ng\nh\n\n"},
		{"1000", long + "y", long + "y", "**Task:** " + long + "y\n**Result:** " + long + "y\n\n"},
		{"1001", long + "yz", long + "yz", "**Task:** " + long + "y...\n**Result:** " + long + "y...\n\n"},
		{"1000 of many bytes", long + "é", long + "世", "**Task:** " + long + "é\n**Result:** " + long + "世\n\n"},
		{
			"1001 of many bytes", long + "éé", long + "世世",
			"**Task:** " + long + "é...\n**Result:** " + long + "世...\n\n",
		},
		{
			"line breaks count once", long + "\r\n", long + "\r\n",
			"**Task:** " + long + " \n**Result:** " + long + "\n\n\n",
		},
		{"no UTF-8", "a\xff\xfeb", "\xe4\xb8", "**Task:** a\uFFFDb\n**Result:** \uFFFD\n\n"},
		{
			"an entry", "## x", head + head + "**Task:** a\n**Result:** b\n\n",
			"**Task:** ## x\n**Result:** " + head + "\\" + head + "\\**Task:** a\n\\**Result:** b\n\n\n\n",
		},
		{
			"an entry behind another break", "", "a\r## b\u2028## c",
			"**Task:** (none)\n**Result:** a\n\\## b\n\\## c\n\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := strings.CutPrefix(text(tt.task, tt.result), head)
			if diff := cmp.Diff(tt.want, got); diff != "" || !ok {
				t.Errorf("begins with the head: %t, want true; the rest (-want +got):\n%s", ok, diff)
			}
		})
	}
}

// TestEntryCutsBeforeEscaping: the result is cut before it gets backslashes, so
// they do not count.
func TestEntryCutsBeforeEscaping(t *testing.T) {
	said := "\n" + strings.Repeat("#\n", 600)
	got := text("t", said)
	if n := strings.Count(got, "\n\\#"); n != 500 {
		t.Errorf("%d escaped lines are left, want 500", n)
	}
	if !strings.HasSuffix(got, "\n\\#...\n\n") {
		t.Errorf("the entry ends with %q, want an escaped line that is cut", got[len(got)-10:])
	}
}

// TestEntryEscapesBlocks: a line of a result never begins a Markdown block or a
// part of an entry. It gets a backslash if it would. Other lines stay as they
// are.
func TestEntryEscapesBlocks(t *testing.T) {
	for _, line := range []string{
		"# a", "## a", "### a", "#", "#a", "#######",
		"---", "----", "--- a", "===", "==", "=", "--", "-", "-  ", "- - -", "-\t- -",
		"***", "* * *", "*", "___", "_ _ _", "__", "*-=_", "***bold*** text",
		"**Task:**", "**Task:** a", "**Result:** a",
		"```", "```go", "````", "~~~", "~~~text",
	} {
		for _, blanks := range []string{
			"", " ", "\t", "    ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060 ", "\x00", "\x1b",
		} {
			got := text("t", "first\n"+blanks+line+"\nlast")
			if want := head + "**Task:** t\n**Result:** first\n" + blanks + "\\" + line + "\nlast\n\n"; got != want {
				t.Errorf("%q:\n%q\nwant\n%q", blanks+line, got, want)
			}
		}
	}
	for _, line := range []string{
		"", " ", "text", "- item", "* item", "1. item", "> quoted", "--flag", "-a", "== b",
		"**bold**", "*a*", "__init__",
		"a # b", "a ---", "`code`", "~", "~~gone~~", "\\# a", "| a | b |", "**Tasks:**", "Task:", "<b>", "\u200b",
	} {
		if got, want := text("t", "first\n"+line), head+"**Task:** t\n**Result:** first\n"+line+"\n\n"; got != want {
			t.Errorf("%q:\n%q\nwant\n%q", line, got, want)
		}
	}
}

// TestLastAndCount: each line that starts with "## " begins an entry, also one
// that a person wrote. An n of 0 or less stands for all entries.
func TestLastAndCount(t *testing.T) {
	a := text("a", "1")
	b := text("b", "## 2\n## 2")
	c := text("c", "3\n")
	for _, tt := range []struct {
		name, text string
		n          int
		want       string
		count      int
	}{
		{"nothing", "", 0, "", 0},
		{"no entries", "# Notes\n\n### a\n##b\n ## c\n", 1, "", 0},
		{"all", a + b + c, 0, a + b + c, 3},
		{"fewer", a + b + c, -1, a + b + c, 3},
		{"one", a + b + c, 1, c, 3},
		{"two", a + b + c, 2, b + c, 3},
		{"three", a + b + c, 3, a + b + c, 3},
		{"more", a + b + c, 4, a + b + c, 3},
		{"text before", "# Notes\nmine\n" + a + b, 0, a + b, 2},
		{"text after", a + b + "mine", 1, b + "mine", 2},
		{"by hand", "## mine\r\nx\r\n## also mine", 1, "## also mine", 2},
		{"only a heading", "## ", 1, "## ", 1},
		{"not UTF-8", "\xff\n## \xff", 1, "## \xff", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, memory.Last(tt.text, tt.n)); diff != "" {
				t.Errorf("the last %d entries (-want +got):\n%s", tt.n, diff)
			}
			if got := memory.Count(tt.text); got != tt.count {
				t.Errorf("counted %d entries, want %d", got, tt.count)
			}
		})
	}
}

// FuzzEntry: any task and any result give exactly one entry with its parts. No
// line of the result begins another entry, or a Markdown block.
func FuzzEntry(f *testing.F) {
	for _, s := range []string{
		"", "Review", "a\r\n## b", "\u2028## 2026-03-01T12:00:00Z\n**Task:** x\n**Result:** y\n\n",
		"---\n===\n\x85\n```",
		"\xe2\x80", "\u200b# a\n-\n\t* * *", strings.Repeat("\n## ", 400), strings.Repeat("世", 1001),
	} {
		f.Add(s, s, 1)
	}
	f.Fuzz(func(t *testing.T, task, result string, n int) {
		n = 1 + (n%5+5)%5
		one := text(task, result)
		all := strings.Repeat(one, n)
		if memory.Count(all) != n {
			t.Fatalf("%d entries where %d were appended:\n%q", memory.Count(all), n, all)
		}
		for k := 1; k <= n; k++ {
			if memory.Last(all, k) != strings.Repeat(one, k) {
				t.Fatalf("the last %d of %d entries are %q", k, n, memory.Last(all, k))
			}
		}
		if !utf8.ValidString(one) || strings.ContainsAny(one, "\r\v\f\u0085\u2028\u2029") {
			t.Fatalf("invalid UTF-8, or a line break that is no newline: %q", one)
		}
		lines := strings.Split(one, "\n")
		if lines[0]+"\n" != head || !strings.HasPrefix(lines[1], "**Task:** ") ||
			!strings.HasPrefix(lines[2], "**Result:** ") {
			t.Fatalf("the first three lines are not those of an entry: %q", one)
		}
		for _, line := range lines[3:] {
			for _, mark := range []string{"#", "---", "===", "***", "___", "**Task:**", "**Result:**", "```", "~~~"} {
				if strings.HasPrefix(strings.TrimSpace(line), mark) {
					t.Fatalf("%q has the line %q, want a backslash before its mark", one, line)
				}
			}
		}
		// The task and the result have at most 1003 characters of up to
		// 4 bytes, and a backslash for each line.
		if n := utf8.RuneCountInString(one); n > 4200 || len(one) > 10<<10 {
			t.Fatalf("%d characters and %d bytes, want at most 4200 and 10240", n, len(one))
		}
	})
}
