package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

const (
	// otherRows is the number of rows of a pane without the focus.
	otherRows = 3
	// bars are the lines that are no pane: the sums above, and the keys below.
	bars = 2
)

// The styles are ANSI SGR codes.
const (
	bold    = "1"
	dim     = "2"
	reverse = "7"
	red     = "31"
	yellow  = "33"
)

// View implements tea.Model. It has as many lines as the terminal at most, and
// no line is wider.
func (m model) View() string {
	var lines []string
	switch m.view {
	case viewList:
		lines = m.list()
	case viewTree:
		lines = m.drawTree()
	case viewRun:
		lines = m.drawRun()
	case viewHelp:
		lines = help
	}
	lines = m.withQuestion(lines)
	// A view may have lines that outlive it, such as the help.
	lines = slices.Clone(lines[:min(len(lines), max(0, m.height-1))])
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, m.foot())
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, max(1, m.width), "…")
	}
	return strings.Join(lines, "\n")
}

// styled gives a text a style.
func (m model) styled(style, text string) string {
	if !m.cfg.Colour || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// withQuestion puts a question over the last lines.
func (m model) withQuestion(lines []string) []string {
	if len(m.ask.lines) == 0 {
		return lines
	}
	var box []string
	for _, l := range m.ask.lines {
		box = append(box, strings.Split(ansi.Hardwrap(cli.Printable(l), max(1, m.width), true), "\n")...)
	}
	if m.ask.takesText {
		box = append(box, "> "+cli.Printable(m.ask.typed)+"_")
	}
	// The last lines of a long question say which keys answer it.
	room := max(1, m.height-2)
	if len(box) > room {
		box = append(box[:1:1], box[len(box)-room+1:]...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	keep := max(0, min(len(lines), m.height-1-len(box)))
	box[0] = m.styled(bold, box[0])
	return append(slices.Clone(lines[:keep]), box...)
}

// foot is the last line: the silence of the server, the error of the last look,
// a note, or the keys.
func (m model) foot() string {
	stale := m.stale()
	switch {
	case stale != "" && m.failed != nil:
		return m.styled(red, stale+": "+cli.Printable(m.failed.Error()))
	case stale != "":
		return m.styled(red, stale)
	case m.failed != nil:
		return m.styled(red, cli.Printable(m.failed.Error()))
	case m.note != "":
		return m.styled(yellow, cli.Printable(m.note))
	case len(m.ask.lines) > 0:
		return ""
	}
	keys := map[view]string{
		viewList: "enter open  c cancel  a approve  d deny  tab next  r refresh  ? keys  q quit",
		viewTree: "enter read the run  c cancel  a approve  d deny  ? keys  q back",
		viewRun:  "up down space b move  c cancel  a approve  d deny  ? keys  q back",
		viewHelp: "q back",
	}
	return m.styled(dim, keys[m.view])
}

// help explains the keys.
var help = []string{
	"Keys",
	"",
	"  up k, down j     the line above, the line below",
	"  space, b         a page down, a page up; also page down, page up",
	"  g, G             the beginning, the end; also home, end",
	"  tab, shift tab   the next list, the list before: trees, agents, workers",
	"  enter            open the tree, then read the run under the cursor",
	"  c                cancel the tree or the run; y confirms",
	"  a, d             approve or deny the turn that is held for a person",
	"  r                look at the bus now",
	"  q, esc           back, and from the lists: leave",
	"  ctrl c           leave",
	"",
	"RUNS are those that have ended and all. Rates are of the last minute.",
	"QUEUE is the number of submissions and runs that wait for a worker.",
}

// list draws the sums and the three lists.
func (m model) list() []string {
	lines := []string{m.sums()}
	for p := range panes {
		lines = append(lines, m.table(p)...)
	}
	return lines
}

// paneRows is the number of lines of a pane, with its title.
func (m model) paneRows(p pane, room int) int {
	taken := 0
	for o := range panes {
		if o != m.pane {
			taken += 1 + min(otherRows, max(1, m.rows(o)))
		}
	}
	if p != m.pane {
		return 1 + min(otherRows, max(1, m.rows(p)))
	}
	return max(2, room-taken)
}

// sums is the line about the whole bus.
func (m model) sums() string {
	slots, taken, held := 0, 0, 0
	for _, w := range m.look.workers {
		slots, taken = slots+w.Slots, taken+w.Slots-w.Free
	}
	for _, t := range m.look.trees {
		if t.Status == client.TreeHeld {
			held++
		}
	}
	more := ""
	if m.look.more {
		more = "+"
	}
	about := ""
	if m.look.partial {
		about = ">"
	}
	minute := []string{
		fmt.Sprintf("%s%d runs", about, m.look.sum.Runs), fmt.Sprintf("%d failed", m.look.sum.Failed),
		cli.Count(m.look.sum.Usage.InputTokens+m.look.sum.Usage.OutputTokens) + " tok",
	}
	if c := m.reader.cost(m.look); c.Priced {
		minute = append(minute, cli.Printable(c.Text()))
	}
	return fmt.Sprintf("%s  trees %d%s  held %d  slots %d/%d  last min: %s", m.styled(bold, "axe"),
		len(m.look.trees), more, held, taken, slots, strings.Join(minute, ", "))
}

// column is a column of a list.
type column struct {
	title string
	// width is the number of columns; 0: the rest.
	width int
	// right aligns numbers.
	right bool
	// wide says that a narrow terminal has no room for it.
	wide bool
}

// wideScreen is the number of columns of a terminal that has room for all.
const wideScreen = 100

// columns are those of the lists.
var columns = [panes][]column{
	{
		{title: "TREE", width: 10},
		{title: "AGENT", width: 12},
		{title: "STATUS", width: 7},
		{title: "AGE", width: 6, right: true},
		{title: "RUNS", width: 7, right: true, wide: true},
		{title: "TOKENS", width: 7, right: true, wide: true},
		{title: "WAITS FOR"},
	},
	{
		{title: "AGENT", width: 24},
		{title: "WORKERS", width: 7, right: true},
		{title: "QUEUE", width: 6, right: true},
		{title: "TAKEN", width: 6, right: true},
		{title: "RUNS/MIN", width: 8, right: true},
		{title: "FAILED", width: 6, right: true},
		{title: "TOKENS", width: 7, right: true},
	},
	{
		{title: "WORKER", width: 24},
		{title: "SLOTS", width: 8, right: true},
		{title: "TOOLS", width: 7, right: true},
		{title: "RUNS", width: 6, right: true},
		{title: "STATUS", width: 10},
		{title: "AGENTS"},
	},
}

// table draws a pane: its title, and the rows that are in view.
func (m model) table(p pane) []string {
	style := dim
	if p == m.pane {
		style = bold
	}
	var titles []string
	for _, c := range columns[p] {
		titles = append(titles, c.title)
	}
	lines := []string{m.styled(style, m.row(columns[p], titles))}
	n := m.rows(p)
	if n == 0 {
		return append(lines, m.styled(dim, [panes]string{"no tree is at work", "no agent", "no worker"}[p]))
	}
	first, last := 0, n
	if m.height > 0 {
		room := max(1, m.paneRows(p, m.height-bars)-1)
		if p == m.pane {
			first = max(0, min(m.cursor[p]-room/2, n-room))
		}
		last = min(n, first+room)
	}
	for i := first; i < last; i++ {
		line := m.row(columns[p], m.cells(p, i))
		if p == m.pane && i == m.cursor[p] && m.height > 0 {
			line = m.cursorLine(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// cursorLine marks the line under the cursor.
func (m model) cursorLine(line string) string {
	line = ansi.Truncate(ansi.Strip(line), max(1, m.width), "…")
	line += strings.Repeat(" ", max(0, m.width-ansi.StringWidth(line)))
	if m.cfg.Colour {
		return m.styled(reverse, line)
	}
	return ansi.Truncate(">"+line[1:], m.width, "")
}

// row aligns the cells of a row. A line begins with a space for the cursor.
func (m model) row(columns []column, cells []string) string {
	var b strings.Builder
	b.WriteString(" ")
	for i, c := range columns {
		if c.wide && m.width < wideScreen {
			continue
		}
		text := cli.Printable(cells[i])
		if c.width == 0 {
			b.WriteString(text)
			break
		}
		text = ansi.Truncate(text, c.width, "…")
		gap := strings.Repeat(" ", c.width-ansi.StringWidth(text))
		if c.right {
			b.WriteString(gap + text + "  ")
		} else {
			b.WriteString(text + gap + "  ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cells are the texts of row i of a pane.
func (m model) cells(p pane, i int) []string {
	switch p {
	case paneTrees:
		t := m.look.trees[i]
		return []string{
			t.Root.Tree.String(), t.Root.Agent.String(), string(t.Status), presence.Age(m.look.at.Sub(t.Began)),
			fmt.Sprintf("%d/%d", t.Done, t.Runs), cli.Count(t.InputTokens + t.OutputTokens), t.waits,
		}
	case paneAgents:
		a := m.look.agents[i]
		return []string{
			a.name, strconv.Itoa(a.workers), strconv.Itoa(a.queued), strconv.Itoa(a.taken), strconv.Itoa(a.Runs),
			strconv.Itoa(a.Failed), cli.Count(a.Usage.InputTokens + a.Usage.OutputTokens),
		}
	case paneWorkers, panes:
	}
	w := m.look.workers[i]
	slots, tools, runs := "?", "?", "?"
	if w.Known {
		slots = fmt.Sprintf("%d/%d", w.Slots-w.Free, w.Slots)
		tools = fmt.Sprintf("%d/%d", w.ToolSlots-w.FreeTools, w.ToolSlots)
		runs = strconv.Itoa(len(w.Runs) + w.More)
	}
	return []string{w.Name, slots, tools, runs, w.Status(m.look.at), strings.Join(w.Agents, ", ")}
}

// paths are the runs of the tree, in the order of their rows.
func (m model) paths() (paths []subjects.Path) {
	for _, r := range m.tree.rows {
		if !r.Path.IsZero() {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

func (m model) drawTree() []string {
	title := m.styled(bold, "tree "+m.tree.id.String())
	if m.tree.snapshot == nil {
		return []string{title, "reading …"}
	}
	if m.tree.snapshot.Queued {
		return []string{title, "no worker has taken it yet"}
	}
	rows := m.tree.rows
	at := max(0, slices.IndexFunc(rows, func(r cli.Row) bool { return r.Path == m.tree.at }))
	page := max(1, m.height-3)
	first := max(0, min(at-page/2, len(rows)-page))
	lines := []string{title + "  " + m.tree.sums, ""}
	for i := first; i < min(len(rows), first+page); i++ {
		line := " " + rows[i].Text
		if i == at {
			line = m.cursorLine(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// treeSums is the line about the tree that is shown.
func (m model) treeSums() string {
	totals, done := m.tree.snapshot.Totals()
	text := fmt.Sprintf("%d/%d runs  %d turns  %s tok", done, totals.Runs, totals.ModelCalls,
		cli.Count(totals.InputTokens+totals.OutputTokens))
	if c := m.cfg.Prices.Cost(client.UsageByModel(m.tree.snapshot.Runs())); c.Priced {
		text += "  " + cli.Printable(c.Text())
	}
	return text
}

func (m model) drawRun() []string {
	all := m.run.lines
	page := max(1, m.height-3)
	first := max(0, min(m.run.scroll, len(all)-page))
	last := min(len(all), first+page)
	title := fmt.Sprintf("%s of tree %s", m.run.path, m.tree.id)
	part := fmt.Sprintf("  lines %d to %d of %d", first+1, last, len(all))
	return append([]string{m.styled(bold, title) + m.styled(dim, part), ""}, all[first:last]...)
}
