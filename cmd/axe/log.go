package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/subjects"
)

const (
	logLong = `Print the conversation of a run as a person reads it: of the root of a tree or,
with a PATH, of a run below it. It has the task, the prompts, the answers of the
model with their tool calls, the results, mail, and the verdicts of supervisors
and people, each with its time. A tool call has the paths of the runs that it
made: axe log ID PATH prints theirs. --all prints all runs below the run too, in
the order of time.

A run that answers at once stores no prompts: its conversation has its task and
its answer. A long text is cut to 40 lines, unless --full is given.

--follow goes on until the run has ended, or ^C. -o json prints an object a
line: tree, path, agent, seq, time, role, turn, text, calls, from, name, by,
idle, decision, failed, kind, worker, model, usage, duration_ms, retries and,
with prices in config.toml, cost, currency and cost_partial. The field by is the
user that the server has proven, as role and user. --raw prints the messages on
the bus, an object a line: seq, time, subject, header and body.`

	logExamples = `  axe log 5Rt0yAkYxJ
  axe log 5Rt0yAkYxJ r-1-0 --follow
  axe log 5Rt0yAkYxJ --all -o json | jq -r 'select(.failed) | .text'
  axe log 5Rt0yAkYxJ --raw | jq -r .subject`
)

// logOptions holds the flags of axe log.
type logOptions struct {
	session                *cli.SessionFlags
	follow, all, raw, full bool
	stdout                 io.Writer
	prices                 price.Table
	conversations          client.Conversations
}

func logCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		o := &logOptions{session: f}
		cmd := &cobra.Command{
			Use: "log ID [PATH]", Short: "Print the conversation of a run",
			Long: logLong, Example: logExamples, Args: cli.RunArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				o.stdout, o.prices = cmd.OutOrStdout(), cli.Prices(name)
				return o.run(cmd.Context(), args)
			},
		}
		flags := cmd.Flags()
		flags.BoolVarP(&o.follow, "follow", "f", false, "go on until the run has ended")
		flags.BoolVarP(&o.all, "all", "a", false, "all runs below the run too")
		flags.BoolVar(&o.raw, "raw", false, "the messages on the bus")
		flags.BoolVar(&o.full, "full", false, "long texts whole")
		f.Output.Register(cmd, "text: for people; json: one object a line")
		return cmd
	})
}

func (o *logOptions) run(ctx context.Context, args []string) error {
	return o.session.UseRun(ctx, args, func(ses *cli.Session, t cli.Target) error {
		switch {
		case o.raw && o.follow:
			return cli.Usage("--raw has what is stored now; to follow the bus: nats sub '%s'",
				ses.Conn.Space().Live(ses.Conn.Space().TreeOf(t.Tree)))
		case o.raw:
			return o.printRaw(ctx, ses, t)
		case o.follow:
			return o.printNew(ctx, ses, t)
		}
		s, err := ses.Snapshot(ctx, t.Tree)
		if err != nil {
			return err
		}
		if !t.Path.IsRoot() && !s.Has(t.Path) {
			return fmt.Errorf("%w: %s of tree %s", client.ErrUnknownRun, t.Path, t.Tree)
		}
		for _, e := range s.Events {
			if err := o.print(t.Path, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// errEnded ends a wait for a run.
var errEnded = errors.New("the run has ended")

// printNew prints the conversation until the run has ended.
func (o *logOptions) printNew(ctx context.Context, ses *cli.Session, t cli.Target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := ses.Follow(ctx, t.Tree, func(e client.Event) {
		if ctx.Err() != nil {
			return
		}
		if err := o.print(t.Path, e); err != nil {
			cancel(err)
		}
		if e.Kind == client.ChildEnded && e.Run.Path == t.Path {
			cancel(errEnded)
		}
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// shows reports whether the messages of a run are printed.
func (o *logOptions) shows(top, path subjects.Path) bool {
	return path == top || o.all && top.Covers(path)
}

// print prints the messages of an event that belong to the conversation of a
// run.
func (o *logOptions) print(path subjects.Path, e client.Event) error {
	printer := cli.MessagePrinter{
		W: o.stdout, Colour: cli.Colour(os.Stdout), Several: o.all, Full: o.full, Prices: o.prices,
	}
	for _, m := range o.conversations.Messages(e) {
		if !o.shows(path, m.Run.Path) {
			continue
		}
		var err error
		if o.session.Output.JSON() {
			err = cli.PrintJSON(o.stdout, cli.MessageLineOf(m, o.prices))
		} else {
			err = printer.Print(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rawLine is a message on the bus as axe log --raw prints it.
type rawLine struct {
	Seq     uint64              `json:"seq"`
	Time    time.Time           `json:"time"`
	Subject string              `json:"subject"`
	Header  map[string][]string `json:"header,omitempty"`
	// Body is the JSON of the body, or its text as a JSON string.
	Body json.RawMessage `json:"body"`
}

// printRaw prints the stored messages of a run or, with --all, of all runs
// below it too.
func (o *logOptions) printRaw(ctx context.Context, ses *cli.Session, t cli.Target) error {
	ms, err := ses.Stored(ctx, t.Tree)
	if err != nil {
		return err
	}
	space := ses.Conn.Space()
	found := false
	for _, m := range ms {
		at, err := space.Parse(m.Subject)
		if err != nil || !o.shows(t.Path, at.Run.Path) {
			continue
		}
		found = true
		l := rawLine{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Header: bus.StoredHeader(m), Body: m.Body}
		if !json.Valid(m.Body) {
			if l.Body, err = json.Marshal(string(m.Body)); err != nil {
				return err
			}
		}
		if err := cli.PrintJSON(o.stdout, l); err != nil {
			return err
		}
	}
	if !found && !t.Path.IsRoot() {
		return fmt.Errorf("%w: %s of tree %s", client.ErrUnknownRun, t.Path, t.Tree)
	}
	return nil
}
