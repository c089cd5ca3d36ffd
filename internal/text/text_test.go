package text_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axebus/axe/internal/text"
)

// Truncate marks the cut, and Head does not.
func Example() {
	fmt.Println(text.Truncate("a whole line", 7))
	fmt.Println(text.Head("a whole line", 7))
	// Output:
	// a whole…
	// a whole
}

// TestTruncate: a cut keeps whole characters, and its mark is not counted.
func TestTruncate(t *testing.T) {
	for _, tt := range []struct {
		s     string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"é", 2, "é"},
		{"abc", 3, "abc"},
		{"abc", 2, "ab…"},
		{"abc", 0, "…"},
		{"aé", 2, "a…"},
		{"日本", 5, "日…"},
	} {
		if got := text.Truncate(tt.s, tt.limit); got != tt.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", tt.s, tt.limit, got, tt.want)
		}
	}
}

// TestLine: lines count from 1, and an offset outside the text is that of the
// nearest byte.
func TestLine(t *testing.T) {
	for offset, want := range map[int]int{-1: 1, 0: 1, 1: 1, 2: 2, 3: 3, 4: 3, 5: 3} {
		if got := text.Line("a\n\nb", offset); got != want {
			t.Errorf("Line of offset %d = %d, want %d", offset, got, want)
		}
	}
}

// FuzzHead: Head returns a valid prefix within the limit. A character that it
// leaves out has at most four bytes.
func FuzzHead(f *testing.F) {
	f.Add("日本語", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 0 || !utf8.ValidString(s) {
			t.Skip()
		}
		head := text.Head(s, limit)
		if !strings.HasPrefix(s, head) || !utf8.ValidString(head) || len(head) > limit {
			t.Fatalf("Head(%q, %d) = %q, want a valid prefix of at most %d bytes", s, limit, head, limit)
		}
		if missing := min(limit, len(s)) - len(head); missing >= utf8.UTFMax {
			t.Errorf("Head(%q, %d) = %q lacks %d bytes, want at most 3", s, limit, head, missing)
		}
	})
}
