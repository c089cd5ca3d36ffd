package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// terminal is a terminal of a few rows that knows the control sequences of a
// Screen. Rows that scroll out of it go into its scrollback.
type terminal struct {
	width, height int
	rows          []string
	scrollback    []string
	row           int
}

func (term *terminal) size() (int, int) { return term.width, term.height }

var control = regexp.MustCompile(`^\x1b\[(\??[0-9]*)([A-Za-z])`)

// Write implements io.Writer. An unknown control sequence is an error.
func (term *terminal) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		for line != "" && line != "\n" {
			found := control.FindStringSubmatch(line)
			switch {
			case found == nil:
				n := strings.IndexAny(line+"\x1b", "\x1b\n\r")
				term.rows[term.row] += line[:n]
				line = strings.TrimPrefix(line[n:], "\r")
				continue
			case found[2] == "A":
				n, _ := strconv.Atoi(found[1])
				term.row = max(0, term.row-n)
			case found[1]+found[2] == "2K":
				term.rows[term.row] = ""
			case found[1]+found[2] != "?7l" && found[1]+found[2] != "?7h":
				return 0, fmt.Errorf("unknown control sequence in %q", line)
			}
			line = line[len(found[0]):]
		}
		if line == "\n" {
			term.newline()
		}
	}
	return len(p), nil
}

// newline moves to the next row. In the last row it scrolls.
func (term *terminal) newline() {
	if term.row++; term.row == term.height {
		term.row--
		term.scrollback = append(term.scrollback, term.rows[0])
		term.rows = append(slices.Delete(term.rows, 0, 1), "")
	}
}

// show folds the message of a line, and applies its events to a screen.
func (s *scriptedTree) show(t *testing.T, screen *Screen, line string) {
	t.Helper()
	for _, e := range s.apply(t, line) {
		screen.Apply(e)
	}
}

// TestScreen draws a tree that grows and shrinks, and writes lines above it. No
// row of an earlier drawing stays on the terminal or in the scrollback. After
// Silence a line is not written.
func TestScreen(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	synctest.Test(t, func(t *testing.T) {
		term := &terminal{width: 40, height: 6, rows: make([]string, 6)}
		s := &Screen{w: term, size: term.size}
		script := &scriptedTree{}
		apply := func(line string) { script.show(t, s, line) }
		write := func(text string) {
			if _, err := s.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		write("before\n")
		s.Draw() // There is no event yet.
		apply("0 r lead called text=all of it")
		apply("0 r lead answered turn=1 calls=a,a,a,a,a,a")
		for i := range 6 {
			apply(fmt.Sprintf("0 r-1-%d a called text=part %d", i, i))
			s.Draw()
			write(fmt.Sprintf("line %d\n", i))
		}
		for range 20 {
			s.Draw()
		}
		for i := range 6 {
			apply(fmt.Sprintf("0 r-1-%d a replied text=done", i))
			s.Draw()
		}
		s.Finish()
		write("after\n")
		s.Silence()
		write("never\n")
		var lines []string
		for _, line := range append(term.scrollback, term.rows...) {
			if line != "" {
				lines = append(lines, line)
			}
		}
		want := []string{
			"before", "line 0", "line 1", "line 2", "line 3", "line 4", "line 5",
			"· lead tree  turn 2 is due  all of it", "└─ ✓ 6 done", "after",
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("lines of the terminal (-want +got):\n%s", diff)
		}
	})
}

// TestScreenHold: while a program draws the whole terminal no log line gets
// there. The last lines are printed afterwards. A stderr that is no terminal
// gets them at once.
func TestScreenHold(t *testing.T) {
	for _, isTerminal := range []bool{true, false} {
		var out strings.Builder
		s := &Screen{w: &out, terminal: isTerminal}
		write := func(text string) {
			if n, err := s.Write([]byte(text)); err != nil || n != len(text) {
				t.Fatalf("%d bytes written, %v", n, err)
			}
		}
		write("before\n")
		s.Hold()
		for i := range maxKept + 1 {
			write(fmt.Sprintf("line %d\n", i))
		}
		if got := out.String(); isTerminal != (got == "before\n") {
			t.Errorf("terminal %v: meanwhile it shows %q", isTerminal, got)
		}
		s.Release()
		write("after\n")
		got := out.String()
		if isTerminal == strings.Contains(got, "line 0\n") || !strings.Contains(got, "\nline 1\n") ||
			!strings.HasSuffix(got, fmt.Sprintf("line %d\nafter\n", maxKept)) {
			t.Errorf("terminal %v: it shows %q", isTerminal, got)
		}
	}
}

// TestScreenShrinks: the terminal has fewer rows than the drawn tree. The next
// frame does not scroll.
func TestScreenShrinks(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	term := &terminal{width: 40, height: 10, rows: make([]string, 10)}
	s := &Screen{w: term, size: term.size}
	script := &scriptedTree{}
	apply := func(line string) { script.show(t, s, line) }
	apply("0 r lead called")
	for i := range 8 {
		apply(fmt.Sprintf("0 r-1-%d a called", i))
	}
	s.Draw()
	term.height = 4
	term.rows, term.row = term.rows[6:], 3
	for i := range 8 {
		apply(fmt.Sprintf("0 r-1-%d a replied", i))
	}
	s.Draw()
	if len(term.scrollback) > 0 {
		t.Errorf("got %q in the scrollback, want nothing", term.scrollback)
	}
	if !strings.HasPrefix(term.rows[0], "· lead ") || term.rows[1] != "└─ ✓ 8 done" || term.rows[2] != "" {
		t.Errorf("got %q on the terminal, want the lead and one line of 8 finished runs", term.rows)
	}
}
