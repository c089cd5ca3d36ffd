package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/presence"
)

const (
	workersLong = `List the workers on the bus, or show the work that one of them has in hand. The
list has the slots of each worker, those in use and all of them, for models and
for tools, and the number of runs in hand. A worker that was there in the last
day and is gone is listed with the time of its end.

With WORKER the command says what its stop would cost. A worker that is told to
end (SIGTERM) lets its requests end within its --grace, and hands the rest on.
No stored message is ever lost. If a worker is killed, its requests and tools in
flight are lost. Other workers begin them again, but no call of a tool with the
effect once. Runs of an agent that no other worker serves wait until one does.

-o json prints an object a line: name, host, pid, since, ended, agents, sole
(the agents that no other worker serves), known (it has said what it has in
hand), slots, free, tool_slots, free_tools, draining, trouble, runs and more
(the number of runs in hand that are not listed).`

	workersExamples = `  axe workers
  axe workers one
  axe workers one -o json | jq '.runs[].tree'`
)

func workersCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		cmd := &cobra.Command{
			Use: "workers [WORKER]", Short: "List the workers, and what one has in hand",
			Long: workersLong, Example: workersExamples, Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.Use(cmd.Context(), func(ses *cli.Session) error {
					all, err := cli.Workers(cmd.Context(), ses.Conn)
					if err != nil {
						return err
					}
					p := workersPrinter{cmd.OutOrStdout(), f.Output, ses.Conn.Clocks.Now()}
					if len(args) > 0 {
						return p.one(all, args[0])
					}
					return p.all(all)
				})
			},
		}
		f.Output.Register(cmd, "text: a table; json: one object a line")
		return cmd
	})
}

// workersPrinter prints workers.
type workersPrinter struct {
	stdout io.Writer
	format cli.Output
	// now is the server's time.
	now time.Time
}

// one prints the worker with a name.
func (p workersPrinter) one(all []cli.WorkerLine, name string) error {
	i := slices.IndexFunc(all, func(w cli.WorkerLine) bool { return w.Name == name })
	if i < 0 {
		return cli.Usage("no worker %s is there, or was in the last day; axe workers lists them", name)
	}
	if p.format.JSON() {
		return cli.PrintJSON(p.stdout, all[i])
	}
	return p.work(all[i])
}

// all prints a line for each worker.
func (p workersPrinter) all(all []cli.WorkerLine) error {
	return list[cli.WorkerLine]{"NAME\tHOST\tSTATUS\tSLOTS\tTOOLS\tRUNS\tAGENTS", func(w cli.WorkerLine) string {
		slots, tools, runs := "?", "?", "?"
		if w.Known {
			slots = fmt.Sprintf("%d/%d", w.Slots-w.Free, w.Slots)
			tools = fmt.Sprintf("%d/%d", w.ToolSlots-w.FreeTools, w.ToolSlots)
			runs = strconv.Itoa(len(w.Runs) + w.More)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", cli.Printable(w.Name), cli.Printable(w.Host),
			w.Status(p.now), slots, tools, runs, names(w.Agents))
	}}.print(p.stdout, p.format, all)
}

// shownNames is the number of agents that a line names.
const shownNames = 6

// names joins names, with the number of those that have no room.
func names(all []string) string {
	text := strings.Join(all[:min(len(all), shownNames)], ", ")
	if more := len(all) - shownNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return cli.Printable(text)
}

// work prints the runs that a worker has in hand, and the cost of its stop.
func (p workersPrinter) work(w cli.WorkerLine) error {
	stdout := p.stdout
	fmt.Fprintf(stdout, "worker %s on %s: %s\n", cli.Printable(w.Name), cli.Printable(w.Host), w.Status(p.now))
	switch {
	case w.Gone:
		return nil
	case !w.Known:
		_, err := fmt.Fprintln(stdout, "it has not said what it has in hand")
		return err
	}
	atLeast, asking := "", 0
	if w.More > 0 { // it does not list all
		atLeast = "at least "
	}
	for _, r := range w.Runs {
		if r.Progress.Event == run.ProgressAsking || r.Progress.Event == run.ProgressRunning {
			asking++
		}
	}
	fmt.Fprintf(stdout, "%d of %d slots and %d of %d tool slots in use, %d runs in hand\n", w.Slots-w.Free, w.Slots,
		w.ToolSlots-w.FreeTools, w.ToolSlots, len(w.Runs)+w.More)
	fmt.Fprintf(stdout, "killed, it loses %s%d requests and tools in flight: others begin them again, "+
		"but no tool with the effect once\n", atLeast, asking)
	if len(w.Sole) > 0 {
		fmt.Fprintf(stdout, "no other worker serves %s: their runs would wait\n", names(w.Sole))
	}
	if len(w.Runs) == 0 {
		return nil
	}
	fmt.Fprintln(stdout)
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TREE\tPATH\tAGENT\tIN HAND\tDOES")
	for _, r := range w.Runs {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Tree, r.Path, r.Agent, presence.Age(p.now.Sub(r.Since)),
			cli.ProgressText(r.Progress))
	}
	return table.Flush()
}
