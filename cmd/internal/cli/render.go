package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
}

// Lines draws the tree, one run a line. A tree that is higher than the frame is
// drawn without the runs that are done. If it is still too high, it loses its
// last lines.
func (t *Tree) Lines(f Frame) []string {
	if t.root == nil {
		return nil
	}
	d := &drawing{frame: f}
	d.draw(t.root, "", "", false)
	if f.Height > 0 && len(d.lines) > f.Height {
		d = &drawing{frame: f, hideDone: true}
		d.draw(t.root, "", "", false)
	}
	if n := len(d.lines); f.Height > 0 && n > f.Height {
		more := d.line("… "+strconv.Itoa(n-f.Height+1)+" more", mark{}, "")
		d.lines = append(d.lines[:f.Height-1], more)
	}
	return d.lines
}

type drawing struct {
	frame    Frame
	hideDone bool
	lines    []string
}

// draw adds a run and all runs below it. First is the prefix of its own line,
// next the prefix of the lines below it. Cancelled reports whether a run above
// it was cancelled.
func (d *drawing) draw(n *node, first, next string, cancelled bool) {
	d.lines = append(d.lines, d.run(n, first, cancelled))
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
		d.lines = append(d.lines, d.line(next+"└─ ", markDone, strconv.Itoa(hidden)+" done"))
	}
}

// run draws the line of one run.
func (d *drawing) run(n *node, prefix string, cancelled bool) string {
	mark, status := n.status(d.frame.Now, cancelled)
	name := Printable(n.agent)
	switch {
	case name == "" && n.refusal == "":
		name = "?"
	case n.fork: // people write to this path
		name += " " + n.path.String()
	}
	var tail []string
	if took := n.duration(d.frame.Now); took > 0 {
		tail = append(tail, seconds(took))
	}
	if n.worker != "" {
		tail = append(tail, n.worker)
	}
	return d.line(prefix, mark, name, Printable(status), strings.Join(tail, " "))
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

// line joins the parts of a line and cuts it to the width of the frame.
func (d *drawing) line(prefix string, m mark, name string, details ...string) string {
	room := d.frame.Width
	if room <= 0 {
		room = 1 << 20
	}
	var b strings.Builder
	add := func(style, text string) {
		text = fit(text, room)
		room -= cells(text)
		b.WriteString(d.paint(style, text))
	}
	if m == markAsking {
		m.sign = string(spinner[d.frame.Tick%len(spinner)])
	}
	add(dim, prefix)
	add(m.style, m.sign)
	if name != "" {
		add("", " "+name)
	}
	for _, text := range details {
		if text != "" {
			add(dim, "  "+text)
		}
	}
	return b.String()
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// fit cuts a text to a number of cells.
func fit(text string, room int) string {
	if cells(text) <= room {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if room -= width(r); room < 1 {
			break
		}
		b.WriteRune(r)
	}
	if room < 0 {
		return ""
	}
	return b.String() + "…"
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

func (d *drawing) paint(style, text string) string {
	if !d.frame.Colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func seconds(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
