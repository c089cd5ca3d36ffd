package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// listedTask is the number of columns of a task in a list of trees.
const listedTask = 32

// PrintTrees prints a table of trees. It prints nothing without any.
func PrintTrees(w io.Writer, trees []client.TreeInfo, now time.Time) error {
	if len(trees) == 0 {
		return nil
	}
	var whole strings.Builder
	table := tabwriter.NewWriter(&whole, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tAGENT\tSTATUS\tAGE\tTOOK\tRUNS\tTURNS\tTOKENS\tTASK\tWAITS FOR")
	for _, t := range trees {
		ended := t.Ended
		if ended.IsZero() {
			ended = now
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d/%d\t%d\t%s\t%s\t%s\n",
			t.Root.Tree, t.Root.Agent, t.Status, presence.Age(now.Sub(t.Began)), ShortTime(ended.Sub(t.Began)),
			t.Done, t.Runs, t.Turns, Count(tokens(t.Usage)), fit(firstWords(t.Task), listedTask),
			cmp.Or(WaitsFor(t, now), firstWords(t.Outcome.Error)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// A terminal would wrap the last column into the next row.
	width := stdoutWidth()
	for line := range strings.Lines(whole.String()) {
		line = strings.TrimRight(line, " \n")
		if width > 0 {
			line = fit(line, width)
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
