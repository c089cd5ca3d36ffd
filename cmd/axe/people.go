package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

const (
	interruptLong = `Stop what a run is doing, and not the run: the root of a tree or, with a PATH, one below it. A request to its model is
aborted, the runs that it waits for and those that it has forked are cancelled, and when they have ended, or ten seconds later,
it is idle until somebody writes to it (axe send): it goes on with that as its next message, knowing what came of its
calls. A run that nobody writes to ends at its deadline. axe cancel ends a run for good.`

	interruptExamples = `  axe interrupt 5Rt0yAkYxJ
  axe send 5Rt0yAkYxJ "Leave the tests alone, and go on"`

	forkLong = `Make a new tree that goes on from where a run of another one was, whatever has become of that: after a turn (ID@TURN,
with the results of its calls), or from its end. It has the conversation up to there, the model, and what the run might do, and is
told the prompt next. With a PATH it is a run below the root. A turn that the run has not had is an error. The id of the
new tree is printed; axe-submit wait ID waits for its answer.`

	forkExamples = `  axe fork 5Rt0yAkYxJ --prompt "And in French?"
  axe fork 5Rt0yAkYxJ@2 r-1-0 --prompt "Do it without the library" --timeout 10m`

	pendingLong = `Show the turns that wait for a person: of agents whose supervision has the mode human, where the supervisor wanted to
pause. Nothing of such a turn is done before axe approve; after axe deny nothing is, and the run is told so. One that nobody
decides on ends as the agent's supervision.on_timeout says. With an ID, those of one tree alone.

--json prints an object a line: tree, path, agent, turn, why, said, calls, since and until.`

	pendingExamples = `  axe pending
  axe pending 5Rt0yAkYxJ --json | jq -r .why`

	approveLong = `Let the turn that a run holds be carried out as it is, all of it: the root of a tree or, with a PATH, a run below it, as axe
pending names them. The command returns when your word is stored; the time of the turn's calls begins then. It is an error
if the run does not hold a turn (any more): of two words on one turn the first counts.`

	approveExamples = `  axe pending
  axe approve 5Rt0yAkYxJ r-1-0 --by ann`

	denyLong = `Let nothing be carried out of the turn that a run holds: the root of a tree or, with a PATH, a run below it, as axe pending
names them. The run goes on, and reads your reason as the result of each call of the turn; to end it, there is axe cancel. It
is an error if the run does not hold a turn (any more): of two words on one turn the first counts.`

	denyExamples = `  axe pending
  axe deny 5Rt0yAkYxJ r-1-0 --reason "not on a Sunday"`
)

func interruptCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		return &cobra.Command{
			Use: "interrupt ID [PATH]", Short: "Stop what a run is doing; it can be written to then", Long: interruptLong, Example: interruptExamples,
			Args: cobra.RangeArgs(1, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return told(
					cmd.Context(),
					f,
					args,
					"interrupted",
					func(ses *cli.Session, tree subjects.Tree, path subjects.Path) error {
						return ses.Interrupt(cmd.Context(), tree, path)
					},
				)
			},
		}
	})
}

// told tells a run something, and a person that it was told.
func told(
	ctx context.Context,
	f *cli.SessionFlags,
	args []string,
	done string,
	tell func(*cli.Session, subjects.Tree, subjects.Path) error,
) error {
	tree, path, what, err := cli.Target(args[0], args[1:]...)
	if err != nil {
		return err
	}
	ses, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer ses.Conn.Close()
	if err := tell(ses, tree, path); err != nil {
		return cli.Named(args[0], err)
	}
	fmt.Fprintf(os.Stderr, "%s: %s is %s\n", name, what, done)
	return nil
}

func forkCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		var prompt string
		timeout := cli.Seconds(time.Hour)
		cmd := &cobra.Command{
			Use: "fork ID[@TURN] [PATH] --prompt TEXT", Short: "Make a new tree that goes on from a turn of another one", Long: forkLong, Example: forkExamples,
			Args: cobra.RangeArgs(1, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return fork(cmd.Context(), cmd.OutOrStdout(), f, args, prompt, time.Duration(timeout))
			},
		}
		cmd.Flags().StringVarP(&prompt, "prompt", "p", "", "what the new tree is told next, - for stdin")
		cmd.Flags().Var(
			&timeout,
			"timeout",
			"the longest that the new tree may take: seconds, or a duration like 10m",
		)
		return cmd
	})
}

func fork(
	ctx context.Context,
	stdout io.Writer,
	f *cli.SessionFlags,
	args []string,
	prompt string,
	within time.Duration,
) error {
	// before the arguments: what was meant as the prompt may stand among
	// them
	if prompt == "" {
		return cli.Usage("no prompt: --prompt says what the new tree is told next")
	}
	if within <= 0 {
		return cli.Usage("--timeout %s: want more than nothing", new(cli.Seconds(within)))
	}
	id, at, named := strings.Cut(args[0], "@")
	turn := 0
	if named {
		n, err := strconv.Atoi(at)
		if err != nil || n < 1 {
			return cli.Usage("turn %q: want a number from 1 on, as in ID@2", at)
		}
		turn = n
	}
	tree, path, _, err := cli.Target(id, args[1:]...)
	if err != nil {
		return err
	}
	text, err := cli.MessageText(ctx, name, prompt, f.MaxBody())
	if err != nil {
		return err
	}
	ses, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer ses.Conn.Close()
	made, err := ses.Fork(ctx, client.ForkTask{Tree: tree, Path: path, Turn: turn, Prompt: text, Timeout: within})
	if err != nil {
		return cli.Named(id, err)
	}
	fmt.Fprintln(stdout, made)
	return nil
}

func approveCommand() *cobra.Command {
	return decideCommand("approved", &cobra.Command{
		Use: "approve ID [PATH]", Short: "Let the turn that a run holds be carried out", Long: approveLong, Example: approveExamples,
	}, &run.Approval{Approve: true})
}

func denyCommand() *cobra.Command {
	word := &run.Approval{}
	cmd := decideCommand("denied", &cobra.Command{
		Use: "deny ID [PATH]", Short: "Let nothing of the turn that a run holds be carried out", Long: denyLong, Example: denyExamples,
	}, word)
	cmd.Flags().StringVar(&word.Reason, "reason", "", "why, as the run is told it")
	return cmd
}

// decideCommand makes a command that has a word on the turn that a run holds.
func decideCommand(done string, cmd *cobra.Command, word *run.Approval) *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		cmd.Args = cobra.RangeArgs(1, 2)
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return told(
				cmd.Context(),
				f,
				args,
				done,
				func(ses *cli.Session, tree subjects.Tree, path subjects.Path) error {
					return ses.Decide(cmd.Context(), tree, path, *word)
				},
			)
		}
		cmd.Flags().StringVar(&word.By, "by", os.Getenv("USER"), "your name, for the record")
		return cmd
	})
}

func pendingCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		var asJSON bool
		cmd := &cobra.Command{
			Use: "pending [ID]", Short: "Show the turns that wait for a person", Long: pendingLong, Example: pendingExamples,
			Args: cobra.MaximumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return showPending(cmd.Context(), cmd.OutOrStdout(), f, asJSON, args)
			},
		}
		cmd.Flags().BoolVar(&asJSON, "json", false, "print each turn as one line of JSON")
		return cmd
	})
}

// waiting is what --json prints of a turn that waits for a person.
type waiting struct {
	Tree  string            `json:"tree"`
	Path  string            `json:"path"`
	Agent string            `json:"agent"`
	Turn  int               `json:"turn"`
	Why   string            `json:"why"`
	Said  string            `json:"said,omitzero"`
	Calls []client.ToolCall `json:"calls"`
	Since time.Time         `json:"since"`
	Until time.Time         `json:"until"`
}

func showPending(ctx context.Context, stdout io.Writer, f *cli.SessionFlags, asJSON bool, args []string) error {
	var tree subjects.Tree
	if len(args) > 0 {
		var err error
		if tree, _, _, err = cli.Target(args[0]); err != nil {
			return err
		}
	}
	ses, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer ses.Conn.Close()
	all, err := ses.HeldTurns(ctx, tree)
	if err != nil {
		return cli.Named(strings.Join(args, ""), err)
	}
	for _, p := range all {
		if asJSON {
			w := waiting{
				p.Run.Tree.String(),
				p.Run.Path.String(),
				p.Run.Agent.String(),
				p.Turn,
				p.Reason,
				p.Text,
				p.Calls,
				p.Since,
				p.Until,
			}
			if err := printLine(stdout, w); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(
			stdout,
			"%s %s: turn %d of %s, until %s\n",
			p.Run.Tree,
			p.Run.Path,
			p.Turn,
			p.Run.Agent,
			p.Until.Local().Format(time.DateTime),
		)
		fmt.Fprintf(stdout, "  its supervisor: %s\n", cli.Printable(p.Reason))
		if p.Text != "" {
			fmt.Fprintf(stdout, "  it says: %s\n", cli.Printable(p.Text))
		}
		for _, c := range p.Calls {
			fmt.Fprintf(stdout, "  %s%s\n", c.Tool, cli.Printable(arguments(c.Arguments)))
		}
	}
	return nil
}

// arguments are those of a tool call on one line, in the order of their names.
func arguments(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, " %s=%q", k, m[k])
	}
	return b.String()
}
