package main

import (
	"context"
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
	"github.com/axebus/axe/subjects"
)

const (
	workersLong = `List the workers on the bus, or show the work that one of them has in hand. A
worker in the list has its slots in use and all of them, for models and for
tools, and the number of runs in hand. A worker that was there in the last day
and is gone is listed with the time of its end.

With WORKER the command says what its stop would cost. A worker that is told to
end (SIGTERM) lets its requests end within its --grace, and hands the rest on.
No stored message is ever lost. A worker that is killed loses the requests in
flight: other workers make them again. Runs of an agent that no other worker
serves wait until one does.

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
					all, err := workersOn(cmd.Context(), ses)
					if err != nil {
						return err
					}
					return printWorkers(cmd.OutOrStdout(), all, args, f.Output)
				})
			},
		}
		f.Output.Register(cmd, "text: a table; json: one object a line")
		return cmd
	})
}

// workerLine is a worker as axe workers -o json prints it.
type workerLine struct {
	Name   string    `json:"name"`
	Host   string    `json:"host,omitzero"`
	PID    int       `json:"pid,omitzero"`
	Since  time.Time `json:"since"`
	Ended  time.Time `json:"ended,omitzero"`
	Agents []string  `json:"agents"`
	// Sole are the agents that no other worker serves.
	Sole []string `json:"sole,omitempty"`
	// Known says that the worker has answered.
	Known bool `json:"known"`
	presence.Work

	gone bool
}

// workersOn lists the workers on the bus and those of the last day.
func workersOn(ctx context.Context, ses *cli.Session) (lines []workerLine, err error) {
	registry := presence.New(ses.Conn)
	all, err := registry.Workers(ctx)
	if err != nil {
		return nil, err
	}
	survey, err := registry.Survey(ctx)
	if err != nil {
		return nil, err
	}
	there := survey.AtWork(ctx, subjects.Tree{})
	for _, w := range all {
		l := workerLine{
			Name: w.Name, Host: w.Host, PID: w.PID, Since: w.Since, Ended: w.Ended, Agents: w.Agents, gone: true,
			Work: presence.Work{Slots: w.Slots},
		}
		for _, b := range there {
			if b.Name == w.Name {
				l.gone, l.Known = false, b.Known
				if b.Known {
					l.Work = b.Work
				}
				l.Sole = soleAgents(b, there)
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// soleAgents returns the agents that no other worker serves.
func soleAgents(w presence.Busy, there []presence.Busy) (sole []string) {
	for _, agent := range w.Agents {
		serves := func(b presence.Busy) bool { return b.Name != w.Name && b.Serves(agent) }
		if !slices.ContainsFunc(there, serves) {
			sole = append(sole, agent)
		}
	}
	return sole
}

func printWorkers(stdout io.Writer, all []workerLine, args []string, format cli.Output) error {
	if len(args) > 0 {
		all = slices.DeleteFunc(all, func(w workerLine) bool { return w.Name != args[0] })
		if len(all) == 0 {
			return cli.Usage("no worker %s is there, or was in the last day; axe workers lists them", args[0])
		}
	}
	if format.JSON() {
		for _, w := range all {
			if err := cli.PrintJSON(stdout, w); err != nil {
				return err
			}
		}
		return nil
	}
	if len(args) > 0 {
		return printWorker(stdout, all[0])
	}
	if len(all) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tHOST\tSTATUS\tSLOTS\tTOOLS\tRUNS\tAGENTS")
	for _, w := range all {
		slots, tools, runs := "?", "?", "?"
		if w.Known {
			slots = fmt.Sprintf("%d/%d", w.Slots-w.Free, w.Slots)
			tools = fmt.Sprintf("%d/%d", w.ToolSlots-w.FreeTools, w.ToolSlots)
			runs = strconv.Itoa(len(w.Runs) + w.More)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.Printable(w.Name), cli.Printable(w.Host), w.status(),
			slots, tools, runs, names(w.Agents))
	}
	return table.Flush()
}

// status is the status of a worker in a few words.
func (w workerLine) status() string {
	switch {
	case w.gone && w.Ended.IsZero():
		return "gone"
	case w.gone:
		return "ended " + presence.Age(time.Since(w.Ended)) + " ago"
	case !w.Known:
		return "does not answer"
	case w.Draining:
		return "draining"
	case w.Trouble != "":
		return "stuck: " + cli.Printable(w.Trouble)
	}
	return "up " + presence.Age(time.Since(w.Since))
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

// printWorker prints the runs that a worker has in hand, and the cost of its
// stop.
func printWorker(stdout io.Writer, w workerLine) error {
	fmt.Fprintf(stdout, "worker %s on %s: %s\n", cli.Printable(w.Name), cli.Printable(w.Host), w.status())
	switch {
	case w.gone:
		return nil
	case !w.Known:
		_, err := fmt.Fprintln(stdout, "it has not said what it has in hand")
		return err
	}
	asking := 0
	for _, r := range w.Runs {
		if r.Progress.Event == run.ProgressAsking || r.Progress.Event == run.ProgressRunning {
			asking++
		}
	}
	fmt.Fprintf(stdout, "%d of %d slots and %d of %d tool slots in use, %d runs in hand\n", w.Slots-w.Free, w.Slots,
		w.ToolSlots-w.FreeTools, w.ToolSlots, len(w.Runs)+w.More)
	fmt.Fprintf(stdout, "killed, it loses %d requests and tools in flight, which others begin again\n", asking)
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Tree, r.Path, r.Agent, presence.Age(time.Since(r.Since)),
			cli.ProgressText(r.Progress))
	}
	return table.Flush()
}
