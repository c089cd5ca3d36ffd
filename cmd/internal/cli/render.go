package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Frame is what a drawing depends on besides the tree itself.
type Frame struct {
	Now    time.Time
	Tick   int // of the spinner
	Width  int // of the terminal, 0: any
	Height int // the most lines, 0: any
	Colour bool
}

// Lines draws the tree, one run a line. A tree that is higher than the frame is
// drawn without the runs that are done, a tree that still is loses its last
// lines.
func (t *Tree) Lines(f Frame) []string {
	if t.root == nil {
		return nil
	}
	d := &drawing{frame: f}
	d.draw(t.root, "", "")
	if f.Height > 0 && len(d.lines) > f.Height {
		d = &drawing{frame: f, fold: true}
		d.draw(t.root, "", "")
	}
	if n := len(d.lines); f.Height > 0 && n > f.Height {
		d.lines = append(d.lines[:f.Height-1], d.cut("… "+strconv.Itoa(n-f.Height+1)+" more", "|", "", "", ""))
	}
	return d.lines
}

type drawing struct {
	frame Frame
	fold  bool // leave out what is done
	lines []string
}

// draw adds a run and all below it. The first prefix is its own line's, the
// second that of the lines below.
func (d *drawing) draw(n *node, first, below string) {
	d.lines = append(d.lines, d.line(n, first))
	shown, folded := n.below, 0
	if d.fold {
		shown = nil
		for _, b := range n.below {
			if b.phase == done {
				folded++
			} else {
				shown = append(shown, b)
			}
		}
	}
	for i, b := range shown {
		if i == len(shown)-1 && folded == 0 {
			d.draw(b, below+"└─ ", below+"   ")
		} else {
			d.draw(b, below+"├─ ", below+"│  ")
		}
	}
	if folded > 0 {
		d.lines = append(
			d.lines,
			d.cut(below+"└─ ", d.mark(&node{phase: done}), strconv.Itoa(folded)+" done", "", ""),
		)
	}
}

func (d *drawing) line(n *node, prefix string) string {
	took := n.took
	if !n.phase.ended() && !n.began.IsZero() {
		took = max(0, d.frame.Now.Sub(n.began))
	}
	var tail []string
	if took > 0 {
		tail = append(tail, seconds(took))
	}
	if n.worker != "" {
		tail = append(tail, n.worker)
	}
	name := Printable(n.agent)
	switch {
	case name == "" && n.phase == failed: // no run: its status says what
	case name == "":
		name = "?"
	case n.fork: // whoever writes to it needs its path
		name += " " + n.path.String()
	}
	return d.cut(prefix, d.mark(n), name, Printable(n.status(d.frame.Now)), strings.Join(tail, " "))
}

// cut joins the parts of a line and cuts it to the width of the frame.
func (d *drawing) cut(prefix, mark, name, status, tail string) string {
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
	add(dim, prefix)
	style, sign, _ := strings.Cut(mark, "|")
	add(style, sign)
	if name != "" {
		add("", " "+name)
	}
	if status != "" {
		add(dim, "  "+status)
	}
	if tail != "" {
		add(dim, "  "+tail)
	}
	return b.String()
}

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

// cells is how many columns of a terminal a text takes.
func cells(text string) int {
	n := 0
	for _, r := range text {
		n += width(r)
	}
	return n
}

// width is 2 for what a terminal draws over two columns. A guess is enough: a
// line that is too long only spoils the drawing.
func width(r rune) int {
	switch {
	case r >= 0x1100 && r <= 0x115f,
		r >= 0x2e80 && r <= 0xa4cf,
		r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 &&
			r <= 0xfe6f,
		r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// The styles, as the terminal's own numbers.
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

// mark is a style and a sign, with a bar between.
func (d *drawing) mark(n *node) string {
	switch n.phase {
	case queued:
		return dim + "|·"
	case asking:
		spinner := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
		return cyan + "|" + string(spinner[d.frame.Tick%len(spinner)])
	case retrying, barred:
		return yellow + "|↻"
	case waiting, reviewed:
		return dim + "|○"
	case held:
		return yellow + "|?"
	case resting:
		return dim + "|◌"
	case ending:
		return yellow + "|!"
	case done:
		return green + "|✓"
	case failed:
		return red + "|✗"
	case cut:
		return yellow + "|⊘"
	}
	return "|"
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
