package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

const (
	sendLong = `Send a message to a run: the root of a tree or, with a PATH, a run below it.
axe mail and --progress plain show paths: r-1-0 is the run of the first call of
the root's first turn. The command returns when the message is stored.

An idle run wakes up and goes on with the message. A run that waits for mail
receives it. A running agent of style mail or slash finds it when it checks its
mail. Any other running agent learns of it when it has an answer, and goes on
with it. A run that has called no agent and has no mail tools ends with its
answer and never sees the message. axe mail shows which messages a run has read.
axe interrupt stops a run at once. A message is refused if the run has ended, or
if its agent has no tools at all, unless the run was interrupted.

MESSAGE is the rest of the line, or the standard input if it is -. An argument
after the id that begins with r- is a path.`

	sendExamples = `  axe send 5Rt0yAkYxJ r-1-0 "Leave out the tests"
  git diff | axe send 5Rt0yAkYxJ r-1-0 -
  axe send 5Rt0yAkYxJ --from ann That is enough`

	mailLong = `Show the messages to a run, the oldest first: to the root of a tree or, with a
PATH, to a run below it. FROM is the path of the run that wrote the message, or
a person's name. A fork sends a message when it is idle, with its result. The
end of a fork is a message too, unless the run itself killed the fork. TAKEN
tells whether the run has read the message.

-o json prints an object a line: seq, time, from, text, idle, outcome (of a fork
that has ended) and taken.`

	mailExamples = `  axe mail 5Rt0yAkYxJ
  axe mail 5Rt0yAkYxJ r-1-0 -o json | jq -r 'select(.taken | not) | .text'`
)

func sendCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		var from string
		cmd := &cobra.Command{
			Use: "send ID [PATH] MESSAGE…", Short: "Send a message to a run that has not ended",
			Long: sendLong, Example: sendExamples, Args: cobra.MinimumNArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error { return send(cmd.Context(), f, from, args) },
		}
		cmd.Flags().StringVar(&from, "from", client.DefaultName, "your name, which the run reads")
		return cmd
	})
}

func send(ctx context.Context, f *cli.SessionFlags, from string, args []string) error {
	named := 1
	if pathlike(args[1]) {
		named = 2
	}
	t, err := cli.ParseTarget(args[:named]...)
	switch {
	case err != nil:
		return err
	case len(args) == named:
		return cli.Usage("no message for %s", t)
	}
	text, err := cli.MessageText(ctx, name, strings.Join(args[named:], " "), f.MaxBody())
	if err != nil {
		return err
	}
	return f.UseTarget(ctx, t, func(ses *cli.Session, t cli.Target) error {
		if err := ses.Send(ctx, t.Tree, t.Path, from, text); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: sent to %s\n", name, t)
		return nil
	})
}

// pathlike reports whether an argument is meant as a path. A malformed path
// counts too, so that a message to a mistyped run does not go to the root.
func pathlike(arg string) bool {
	return subjects.IsRunName(arg) && !strings.ContainsFunc(arg, unicode.IsSpace)
}

func mailCommand() *cobra.Command {
	return listCommand(&cobra.Command{
		Use: "mail ID [PATH]", Short: "Show the messages to a run", Long: mailLong, Example: mailExamples,
		Args: cli.RunArgs,
	}, printMail)
}

// listCommand makes a command that prints what the run, or the tree, of its
// arguments has.
func listCommand(cmd *cobra.Command, list printer) *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		f.Looks = true
		f.Output.Register(cmd, "text; json: one object a line")
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return f.UseRun(cmd.Context(), args, func(ses *cli.Session, t cli.Target) error {
				return list(cmd.Context(), ses, t, cmd.OutOrStdout(), f.Output)
			})
		}
		return cmd
	})
}

// printer reads something about a run or a tree and prints it.
type printer func(ctx context.Context, ses *cli.Session, t cli.Target, stdout io.Writer, format cli.Output) error

func printMail(ctx context.Context, ses *cli.Session, t cli.Target, stdout io.Writer, format cli.Output) error {
	all, err := ses.Mailbox(ctx, t.Tree, t.Path)
	if err != nil {
		return err
	}
	lines := make([]messageJSON, len(all))
	for i, m := range all {
		lines[i] = messageJSON{m.Seq, m.Time, m.From, m.Text, m.Idle, m.Outcome, m.Taken}
	}
	return list[messageJSON]{"TIME\tFROM\tTAKEN\tMESSAGE", func(m messageJSON) string {
		text := cli.MailText(run.Mail{Text: m.Text, Idle: m.Idle, Outcome: m.Outcome})
		return fmt.Sprintf("%s\t%s\t%s\t%s", m.Time.Local().Format(time.DateTime), cli.Printable(m.From),
			yesNo(m.Taken), cli.Printable(text))
	}}.print(stdout, format, lines)
}

// messageJSON is one line of axe mail -o json.
type messageJSON struct {
	Seq     uint64       `json:"seq"`
	Time    time.Time    `json:"time"`
	From    string       `json:"from"`
	Text    string       `json:"text,omitzero"`
	Idle    bool         `json:"idle"`
	Outcome *run.Outcome `json:"outcome,omitempty"`
	Taken   bool         `json:"taken"`
}
