package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

const (
	interruptLong = `Stop the current work of a run without ending the run: the root of a tree or,
with a PATH, a run below it. The request to its model is aborted. The runs that
it waits for and its forks are cancelled. When they have ended, or ten seconds
later, the run is idle until it gets a message (axe send). It goes on with that
message, and it knows the results of its calls. Without a message it ends at its
deadline. axe cancel ends a run for good.`

	interruptExamples = `  axe interrupt 5Rt0yAkYxJ
  axe send 5Rt0yAkYxJ "Leave the tests alone, and go on"`

	forkLong = `Start a new tree that continues the conversation of a run, even of a run that
has ended. The new tree continues after a turn (ID@TURN), with the results of
that turn's calls, or after the end. It has the run's conversation, model and
tools, and reads the prompt next. With a PATH it continues a run below the root.
A turn that the run has not had is an error. The command prints the id of the
new tree; axe wait ID waits for its answer.`

	forkExamples = `  axe fork 5Rt0yAkYxJ --prompt "And in French?"
  axe fork 5Rt0yAkYxJ@2 r-1-0 --prompt "Do it without the library" --timeout 10m`

	approveLong = `Carry out the whole turn that a run holds: the root of a tree or, with a PATH, a
run below it, as axe pending lists them. The command returns when the approval
is stored. The time limits of the turn's calls start then. It is an error if the
run does not hold a turn (any more) or, with ID@TURN, if it holds another one.
Of two decisions on one turn the first counts.

--args gives a call of a tool other arguments: a JSON object, after the number
of the call and = if the turn has several calls of tools. The model reads them
with the result. Calls of agents keep their tasks.`

	approveExamples = `  axe pending
  axe approve 5Rt0yAkYxJ@3 r-1-0 --by ann
  axe approve 5Rt0yAkYxJ --args '{"command": "make test"}'
  axe approve 5Rt0yAkYxJ --args '1={"path": "notes.md"}'`

	denyLong = `Withhold the turn that a run holds: the root of a tree or, with a PATH, a run
below it, as axe pending lists them. The run goes on and reads the reason as the
result of each call of the turn. axe cancel ends the run instead. It is an error
if the run does not hold a turn (any more) or, with ID@TURN, if it holds another
one. Of two decisions on one turn the first counts.`

	denyExamples = `  axe pending
  axe deny 5Rt0yAkYxJ r-1-0 --reason "not on a Sunday"`
)

func interruptCommand() *cobra.Command {
	return actionCommand("interrupted", &cobra.Command{
		Use: "interrupt ID [PATH]", Short: "Stop the current work of a run; it then waits for mail",
		Long: interruptLong, Example: interruptExamples,
	}, (*cli.Session).Interrupt)
}

// action does something to one run.
type action = func(*cli.Session, context.Context, subjects.Tree, subjects.Path) error

// actionCommand makes a command that does an action to the run that its
// arguments name, and reports it on stderr. Done is the action's past
// participle.
func actionCommand(done string, cmd *cobra.Command, do action) *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		cmd.Args = cli.RunArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return f.UseRun(cmd.Context(), args, func(ses *cli.Session, t cli.Target) error {
				if err := do(ses, cmd.Context(), t.Tree, t.Path); err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%s: %s is %s\n", name, t, done)
				return nil
			})
		}
		return cmd
	})
}

func forkCommand() *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		var prompt string
		timeout := cli.Seconds(time.Hour)
		cmd := &cobra.Command{
			Use: "fork ID[@TURN] [PATH] --prompt TEXT", Short: "Start a new tree that continues a run of another tree",
			Long: forkLong, Example: forkExamples, Args: cli.RunArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				task := client.ForkTask{Prompt: prompt, Timeout: time.Duration(timeout)}
				made, err := fork(cmd.Context(), f, args, task)
				if err != nil {
					return err
				}
				return cli.PrintTree(cmd.OutOrStdout(), f.Output, made)
			},
		}
		cmd.Flags().StringVarP(&prompt, "prompt", "p", "", "next message of the conversation, - for stdin")
		f.Output.Register(cmd, "text: the id of the new tree; json: an object with it")
		cmd.Flags().Var(&timeout, "timeout", "time limit of the new tree: seconds, or a duration like 10m")
		return cmd
	})
}

// fork starts the new tree and returns its id. The task has the values of the
// flags. The arguments name the run to continue, and its turn.
func fork(
	ctx context.Context, f *cli.SessionFlags, args []string, task client.ForkTask,
) (made subjects.Tree, err error) {
	// The prompt is checked before the arguments, since a person may have
	// written the prompt as an argument.
	if task.Prompt == "" {
		return made, cli.Usage("--prompt is required: the next message of the conversation")
	}
	if task.Timeout <= 0 {
		return made, cli.Usage("--timeout must be positive, got %s", new(cli.Seconds(task.Timeout)))
	}
	if task.Prompt, err = cli.MessageText(ctx, name, task.Prompt, f.MaxBody()); err != nil {
		return made, err
	}
	err = f.UseTurn(ctx, args, func(ses *cli.Session, t cli.Target, turn int) error {
		task.Tree, task.Path = t.Tree, t.Path
		task.Turn = turn
		made, err = ses.Fork(ctx, task)
		return err
	})
	return made, err
}

func approveCommand() *cobra.Command {
	approval := &run.Approval{Approve: true}
	var given []string
	cmd := &cobra.Command{
		Use: "approve ID[@TURN] [PATH]", Short: "Carry out the turn that a run holds",
		Long: approveLong, Example: approveExamples,
	}
	cmd.Flags().StringArrayVar(&given, "args", nil, "other arguments of a call, as [CALL=]JSON; may be repeated")
	return decideCommand("approved", cmd, approval, &given)
}

func denyCommand() *cobra.Command {
	denial := &run.Approval{}
	cmd := decideCommand("denied", &cobra.Command{
		Use: "deny ID[@TURN] [PATH]", Short: "Withhold the turn that a run holds",
		Long: denyLong, Example: denyExamples,
	}, denial, new([]string))
	cmd.Flags().StringVar(&denial.Reason, "reason", "", "the reason, which the run reads")
	return cmd
}

// decideCommand makes a command that approves or denies the turn that a run
// holds. The approval has the other flags of the command, and gets --by. Given
// are the values of --args. Done is the past participle of the decision.
func decideCommand(done string, cmd *cobra.Command, approval *run.Approval, given *[]string) *cobra.Command {
	return busCommand(func(f *cli.SessionFlags) *cobra.Command {
		cmd.Flags().StringVar(&approval.By, "by", os.Getenv("USER"), "your name, for the record")
		cmd.Args = cli.RunArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			return f.UseTurn(cmd.Context(), args, func(ses *cli.Session, t cli.Target, turn int) error {
				held, err := ses.HeldTurn(cmd.Context(), t.Tree, t.Path)
				if err != nil {
					return err
				}
				if turn > 0 && turn != held.Turn {
					return fmt.Errorf("turn %d of %s: %w", turn, t, client.ErrNotHeld)
				}
				if approval.Arguments, err = cli.OtherArguments(held, *given); err != nil {
					return err
				}
				approval.Turn = held.Turn
				if err := ses.Decide(cmd.Context(), t.Tree, t.Path, *approval); err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%s: turn %d of %s is %s\n", name, held.Turn, t, done)
				return nil
			})
		}
		return cmd
	})
}
