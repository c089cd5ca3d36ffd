package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// Frame is the part of a drawing that does not come from the tree.
type Frame struct {
	Now time.Time
	// Tick is the position of the spinner.
	Tick int
	// Width is the width of the terminal. Zero: unbounded.
	Width int
	// Height is the maximum number of lines. Zero: unbounded.
	Height int
	Colour bool
	// Top is the run that is drawn with all runs below it. Zero: the root.
	Top subjects.Path
	// Details adds to each run its model and its retries, and says why a run
	// that has not ended is where it is.
	Details bool
}

// Lines draws the tree, one run a line. A tree that is higher than the frame is
// drawn without the runs that are done. If it is still too high, it loses its
// last lines.
func (t *Tree) Lines(f Frame) []string {
	rows := t.Rows(f)
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = r.Text
	}
	return lines
}

// Row is a line of a drawing.
type Row struct {
	// Path is that of the run of the line. It is zero for a line that stands
	// for several runs.
	Path subjects.Path
	Text string
}

// Rows draws the tree as Lines does.
func (t *Tree) Rows(f Frame) []Row {
	top := t.root
	if !f.Top.IsZero() {
		top = t.nodes[f.Top]
	}
	if top == nil {
		return nil
	}
	d := &drawing{tree: t, frame: f}
	d.draw(top, "", "", false)
	if f.Height > 0 && len(d.rows) > f.Height {
		d = &drawing{tree: t, frame: f, hideDone: true}
		d.draw(top, "", "", false)
	}
	if n := len(d.rows); f.Height > 0 && n > f.Height {
		more := d.start("… "+strconv.Itoa(n-f.Height+1)+" more", mark{})
		d.rows = append(d.rows[:f.Height-1], Row{Text: more.String()})
	}
	return d.rows
}

type drawing struct {
	tree     *Tree
	frame    Frame
	hideDone bool
	rows     []Row
}

// draw adds a run and all runs below it. First is the prefix of its own line,
// next the prefix of the lines below it. Cancelled reports whether a run above
// it was cancelled.
func (d *drawing) draw(n *node, first, next string, cancelled bool) {
	d.rows = append(d.rows, Row{n.path, d.run(n, first, cancelled)})
	shown := n.below
	if d.hideDone {
		shown = slices.DeleteFunc(slices.Clone(shown), (*node).isDone)
	}
	hidden := len(n.below) - len(shown)
	for i, b := range shown {
		if i == len(shown)-1 && hidden == 0 {
			d.draw(b, next+"└─ ", next+"   ", cancelled || n.cancelled)
		} else {
			d.draw(b, next+"├─ ", next+"│  ", cancelled || n.cancelled)
		}
	}
	if hidden > 0 {
		l := d.start(next+"└─ ", markDone)
		l.add("", " ", strconv.Itoa(hidden)+" done")
		d.rows = append(d.rows, Row{Text: l.String()})
	}
}

const (
	// minName is the least number of columns to which a name is cut, to
	// leave room for the run's path.
	minName = 4
	// minTask is the number of columns that the run's numbers leave to its
	// task. A shorter task needs fewer.
	minTask = 12
)

// run draws the line of one run: its name, its path or the tree's id, its
// state, and then numbers and its task. The task takes the columns that are
// left. Where these are few, the last numbers go first.
func (d *drawing) run(n *node, prefix string, cancelled bool) string {
	mark, status := n.status(d.frame.Now, cancelled)
	if d.frame.Details && n.needsReason() {
		status = cmp.Or(d.tree.why(n, d.frame.Now), status)
	}
	l := d.start(prefix, mark)
	name := Printable(n.agent)
	if name == "" && n.refusal == "" {
		name = "?"
	}
	address := n.address()
	if room := l.room - len("  ") - cells(address); address != "" {
		name = fit(name, max(minName, room))
	}
	l.add("", " ", name)
	l.add(dim, " ", address)
	l.add(dim, "  ", Printable(status))
	numbers := n.numbers(d.frame.Now)
	if d.frame.Details {
		numbers = append(numbers, n.details()...)
	}
	room := min(minTask, cells(n.task))
	for len(numbers) > 0 && room > 0 && cells(strings.Join(numbers, " "))+len("    ")+room > l.room {
		numbers = numbers[:len(numbers)-1]
	}
	l.add(dim, "  ", strings.Join(numbers, " "))
	l.add("", "  ", n.task)
	return l.String()
}

// address returns the name by which commands know a run: its path, and for the
// root the tree's id.
func (n *node) address() string {
	if n.path.IsRoot() {
		return n.tree
	}
	if n.refusal != "" {
		return "" // there is no run
	}
	return n.path.String()
}

// numbers returns the run's time, tokens and worker, without those that are
// not known.
func (n *node) numbers(now time.Time) []string {
	var all []string
	if took := n.duration(now); took > 0 {
		all = append(all, ShortTime(took))
	}
	if used := n.tokens(); used > 0 {
		all = append(all, Count(used)+" tok")
	}
	if n.worker != "" {
		all = append(all, Printable(n.worker))
	}
	return all
}

// details returns the run's model and its retries, without those that are not
// known.
func (n *node) details() (all []string) {
	if n.model != "" {
		all = append(all, Printable(n.model))
	}
	if retries := n.retries + n.state.Turns.Retries(); retries == 1 {
		all = append(all, "1 retry")
	} else if retries > 1 {
		all = append(all, strconv.Itoa(retries)+" retries")
	}
	return all
}

// duration returns the time that a run has taken so far.
func (n *node) duration(now time.Time) time.Duration {
	switch {
	case n.ended != nil:
		return n.ended.took
	case n.state.CalledAt.IsZero():
		return 0
	}
	return now.Sub(n.state.CalledAt)
}

// line is a line of a drawing that is cut to the width of its frame.
type line struct {
	strings.Builder
	colour bool
	// room is the number of columns that are left.
	room int
}

// start begins a line with its prefix and mark.
func (d *drawing) start(prefix string, m mark) *line {
	l := &line{colour: d.frame.Colour, room: d.frame.Width}
	if l.room <= 0 {
		l.room = 1 << 20
	}
	if m == markAsking {
		m.sign = string(spinner[d.frame.Tick%len(spinner)])
	}
	l.add(dim, "", prefix)
	l.add(m.style, "", m.sign)
	return l
}

// add adds a gap and a text, unless the text is empty.
func (l *line) add(style, gap, text string) {
	if text == "" {
		return
	}
	text = fit(gap+text, l.room)
	l.room -= cells(text)
	if l.colour && style != "" && text != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	l.WriteString(text)
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// fit cuts a text to a number of cells. A text that is cut ends in "…".
func fit(text string, room int) string {
	used := 0
	end := 0 // where the text is cut if it is too long
	for i, r := range text {
		if used < room {
			end = i
		}
		if used += width(r); used > room {
			break
		}
	}
	switch {
	case used <= room:
		return text
	case room < 1:
		return ""
	}
	return text[:end] + "…"
}

// cells returns the number of terminal columns of a text.
func cells(text string) int {
	n := 0
	for _, r := range text {
		n += width(r)
	}
	return n
}

// width returns the number of terminal columns of a character, 1 or 2. The
// ranges are approximate: a line that is too long only spoils the drawing.
func width(r rune) int {
	switch {
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// The styles are ANSI SGR codes.
const (
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// Count returns a number in a few characters.
func Count(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// ShortTime formats a time span in a few characters.
func ShortTime(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
