package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// shownLines is the number of lines of a difference that are printed.
const shownLines = 12

// PrintPartings prints the places at which two trees part.
func PrintPartings(w io.Writer, a, b *client.Snapshot, partings []client.Parting) error {
	p := &printer{w: w}
	p.line("--- %s", summary(a))
	p.line("+++ %s", summary(b))
	for _, d := range partings {
		p.line("")
		p.line("%s: %s", d.Path, partingPlace(d))
		p.difference(linesOf(d.A), linesOf(d.B))
	}
	if len(partings) == 0 {
		p.line("the conversations of all runs are the same")
	}
	return p.err
}

// summary describes a tree on one line.
func summary(s *client.Snapshot) string {
	totals, _ := s.Totals()
	status := "at work"
	for _, r := range s.Runs() {
		if r.Run.Path == subjects.Root && !r.Ended.IsZero() {
			status = outcomeText(r.Outcome)
		}
	}
	return Printable(fmt.Sprintf("%s  %s: %s, %s, %s, %s tokens", s.Root.Tree, s.Root.Agent, status,
		plural(totals.Runs, "run"), plural(totals.ModelCalls, "turn"), Count(tokens(totals.Usage))))
}

// partingPlace says where in a conversation the trees part.
func partingPlace(d client.Parting) string {
	switch {
	case d.A == nil:
		return "the first tree ends before this " + heading(*d.B)
	case d.B == nil:
		return "the second tree ends before this " + heading(*d.A)
	case d.A.Role == d.B.Role:
		return "another " + heading(*d.A)
	}
	return heading(*d.A) + ", and " + heading(*d.B)
}

// linesOf returns a message as lines of text.
func linesOf(m *client.Message) (lines []string) {
	if m == nil {
		return nil
	}
	if m.Failed {
		lines = append(lines, "failed: "+string(m.Kind))
	}
	if m.Text != "" {
		lines = append(lines, strings.Split(strings.TrimRight(m.Text, "\n"), "\n")...)
	}
	for _, c := range m.Calls {
		lines = append(lines, strings.TrimSpace("→ "+c.Tool+" "+client.NormalJSON(c.Arguments)+" "+c.Error))
	}
	return lines
}

// difference prints the lines of two texts that differ. It leaves out the lines
// that both begin and end with.
func (p *printer) difference(a, b []string) {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	a, b = a[same:], b[same:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if same > 0 {
		p.line("  %s the same", plural(same, "line"))
	}
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"-", a}, {"+", b}} {
		for i, l := range side.lines {
			if i == shownLines {
				p.line("%s … %s more", side.sign, plural(len(side.lines)-i, "line"))
				break
			}
			p.line("%s %s", side.sign, Printable(l))
		}
	}
}
