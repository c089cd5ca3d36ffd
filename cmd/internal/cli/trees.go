package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// listedTask is the number of columns of a task in a list of trees.
const listedTask = 32

// wideList is the number of columns of a terminal that has room for all that is
// known of a tree.
const wideList = 120

// treeColumn is a column of a list of trees.
type treeColumn struct {
	title string
	// wide says that a narrow terminal has no room for it.
	wide  bool
	value func(t client.TreeInfo, d Display) string
}

// treeColumns are the columns of a list of trees.
var treeColumns = []treeColumn{
	{"ID", false, func(t client.TreeInfo, _ Display) string { return t.Root.Tree.String() }},
	{"AGENT", false, func(t client.TreeInfo, _ Display) string { return t.Root.Agent.String() }},
	{"STATUS", false, func(t client.TreeInfo, _ Display) string { return string(t.Status) }},
	{"AGE", false, func(t client.TreeInfo, d Display) string { return presence.Age(d.Now.Sub(t.Began)) }},
	{"TOOK", true, func(t client.TreeInfo, d Display) string {
		if t.Ended.IsZero() {
			return ShortTime(d.Now.Sub(t.Began))
		}
		return ShortTime(t.Ended.Sub(t.Began))
	}},
	{"RUNS", false, func(t client.TreeInfo, _ Display) string { return fmt.Sprintf("%d/%d", t.Done, t.Runs) }},
	{"TURNS", true, func(t client.TreeInfo, _ Display) string { return strconv.Itoa(t.Turns) }},
	{"TOKENS", false, func(t client.TreeInfo, _ Display) string { return Count(tokens(t.Usage)) }},
	{costTitle, false, func(t client.TreeInfo, d Display) string { return treeCost(t, d).Amount() }},
	{"TASK", true, func(t client.TreeInfo, _ Display) string {
		return ansi.Truncate(firstWords(t.Task), listedTask, "…")
	}},
	{"WAITS FOR", false, func(t client.TreeInfo, d Display) string {
		return cmp.Or(WaitsFor(t, d.Now), firstWords(t.Outcome.Error))
	}},
}

// costTitle is the title of a column of costs. The currency follows it.
const costTitle = "COST "

// PrintTrees prints a table of trees. It prints nothing without any. A row is
// cut to the width of a terminal.
func PrintTrees(w io.Writer, trees []client.TreeInfo, d Display) error {
	if len(trees) == 0 {
		return nil
	}
	width := stdoutWidth()
	columns := slices.DeleteFunc(slices.Clone(treeColumns), func(c treeColumn) bool {
		return c.wide && 0 < width && width < wideList || c.title == costTitle && d.Prices.IsZero()
	})
	row := func(cell func(treeColumn) string) string {
		var cells []string
		for _, c := range columns {
			cells = append(cells, cell(c))
		}
		return strings.Join(cells, "\t")
	}
	var whole strings.Builder
	table := tabwriter.NewWriter(&whole, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, row(func(c treeColumn) string {
		if c.title == costTitle {
			return c.title + Printable(d.Prices.Currency)
		}
		return c.title
	}))
	for _, t := range trees {
		fmt.Fprintln(table, row(func(c treeColumn) string { return c.value(t, d) }))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(whole.String()) {
		line = strings.TrimRight(line, " \n")
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// WaitsFor says why a tree is where it is, "" for one that has ended.
func WaitsFor(t client.TreeInfo, now time.Time) string {
	switch {
	case t.Snapshot == nil:
		return ""
	case t.Status == client.TreeQueued:
		return cmp.Or(TreeOf(t.Snapshot).Why(subjects.Root, now), "waits for a worker to take it")
	}
	return TreeOf(t.Snapshot).Why(subjects.Root, now)
}
