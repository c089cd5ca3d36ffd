package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/axebus/axe/agentd/run"
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
// drawn without the runs that are done. If it is still too high, the runs at
// work stay, and the last line counts the others. A run without its parent's
// line stands below the next run above it that has one.
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
	if f.Height > 0 && len(d.rows) > f.Height {
		d = &drawing{tree: t, frame: f}
		hidden := d.choose(top)
		d.draw(top, "", "", false)
		if f.Height > 1 {
			line := d.start("… "+hidden, mark{})
			d.rows = append(d.rows, Row{Text: line.String()})
		}
	}
	return d.rows
}

type drawing struct {
	tree     *Tree
	frame    Frame
	hideDone bool
	// shown has the runs that are drawn; nil: all.
	shown map[*node]bool
	rows  []Row
}

// rank orders the runs of a tree that is too high, the first one to be drawn
// first.
type rank int

const (
	// rankStuck is a run that goes on only if a person or an operator
	// helps, and the top of the drawing.
	rankStuck rank = iota
	// rankWorks is a run of which a worker asks the model, or runs the
	// tool.
	rankWorks
	// rankAbove is a run with a run at work below it.
	rankAbove
	rankWaits
	rankFailed
	rankDone
)

// rank is the rank of a run. Below says that a run below it is at work.
func (n *node) rank(below bool) rank {
	switch {
	case n.isDone() && !below:
		return rankDone
	case n.ended == nil && n.refusal == "" && (n.stalled != "" || n.state.Phase == run.Held):
		return rankStuck
	case n.ended == nil && (n.asks() || n.state.Phase == run.Polling):
		return rankWorks
	case below:
		return rankAbove
	case n.ended != nil || n.refusal != "":
		return rankFailed
	}
	return rankWaits
}

// ranked is a run with its rank.
type ranked struct {
	node *node
	rank rank
}

// ranks returns a run and all runs below it, in the order of their lines.
func (n *node) ranks() []ranked {
	all := []ranked{{node: n}}
	works := false
	for _, b := range n.below {
		below := b.ranks()
		works = works || below[0].rank <= rankAbove
		all = append(all, below...)
	}
	all[0].rank = n.rank(works)
	return all
}

// choose decides which runs are drawn of a tree that is too high, and counts
// the others in a few words.
func (d *drawing) choose(top *node) (hidden string) {
	all := top.ranks()
	all[0].rank = rankStuck
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	room := max(1, d.frame.Height-1)
	d.shown = map[*node]bool{}
	var counts [rankDone + 1]int
	for i, r := range all {
		if i < room {
			d.shown[r.node] = true
		} else {
			counts[r.rank]++
		}
	}
	var texts []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{counts[rankStuck] + counts[rankWorks], "at work"},
		{counts[rankDone], "done"},
		{counts[rankAbove] + counts[rankWaits] + counts[rankFailed], "more"},
	} {
		if c.n > 0 {
			texts = append(texts, strconv.Itoa(c.n)+" "+c.what)
		}
	}
	return strings.Join(texts, ", ")
}

// child is a run that is drawn below another one.
type child struct {
	*node
	// cancelled reports whether a run above it was cancelled.
	cancelled bool
}

// children returns the runs that are drawn below a run, and the number of those
// that are hidden because they are done.
func (d *drawing) children(n *node, cancelled bool) (all []child, done int) {
	cancelled = cancelled || n.cancelled
	for _, b := range n.below {
		switch {
		case d.shown != nil && !d.shown[b]:
			below, _ := d.children(b, cancelled)
			all = append(all, below...)
		case d.hideDone && b.isDone() && b.ranks()[0].rank == rankDone:
			done++
		default:
			all = append(all, child{b, cancelled})
		}
	}
	return all, done
}

// draw adds a run and all runs below it. First is the prefix of its own line,
// next the prefix of the lines below it. Cancelled reports whether a run above
// it was cancelled.
func (d *drawing) draw(n *node, first, next string, cancelled bool) {
	d.rows = append(d.rows, Row{n.path, d.run(n, first, cancelled)})
	shown, hidden := d.children(n, cancelled)
	for i, b := range shown {
		if i == len(shown)-1 && hidden == 0 {
			d.draw(b.node, next+"└─ ", next+"   ", b.cancelled)
		} else {
			d.draw(b.node, next+"├─ ", next+"│  ", b.cancelled)
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
	if room := l.room - len("  ") - ansi.StringWidth(address); address != "" {
		name = ansi.Truncate(name, max(minName, room), "…")
	}
	l.add("", " ", name)
	l.add(dim, " ", address)
	l.add(dim, "  ", Printable(status))
	numbers := n.numbers(d.frame.Now)
	if d.frame.Details {
		numbers = append(numbers, n.details()...)
	}
	room := min(minTask, ansi.StringWidth(n.task))
	for len(numbers) > 0 && room > 0 && ansi.StringWidth(strings.Join(numbers, " "))+len("    ")+room > l.room {
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
	text = ansi.Truncate(gap+text, l.room, "…")
	l.room -= ansi.StringWidth(text)
	if l.colour && style != "" && text != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	l.WriteString(text)
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

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
