package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	pendingLong = `List the turns and the calls of tools that wait for a person. A turn waits if
its agent has supervision mode human and the supervisor answered pause, or if it
uses a tool of approve.tools. axe approve carries the turn out. axe deny
withholds it, and the run reads the reason. Without a decision the agent's
supervision.on_timeout applies.

A call of a tool waits if it may have taken effect, and the agent's file says
on_unknown = "ask". axe settle says what became of it. A call waits too if its
tool asks for input. axe answer gives it. With an ID the list shows one tree
only.

-o json prints an object a line. For a turn: tree, path, agent, turn, why, said,
calls, since, until and, of an agent with approve.by, approvers. For a call:
tree, path, agent, tool, arguments, key, worker, began, why, form, since and
until.`

	pendingExamples = `  axe pending
  axe pending 5Rt0yAkYxJ -o json | jq -r .why`
)

func pendingCommand() *cobra.Command {
	return listCommand(&cobra.Command{
		Use: "pending [ID]", Short: "List the turns and calls that wait for a person",
		Long: pendingLong, Example: pendingExamples, Args: cobra.MaximumNArgs(1),
	}, printPending)
}

func printPending(ctx context.Context, ses *cli.Session, t cli.Target, stdout io.Writer, format cli.Output) error {
	turns, err := ses.HeldTurns(ctx, t.Tree)
	if err != nil {
		return err
	}
	calls, err := ses.HeldCalls(ctx, t.Tree)
	if err != nil {
		return err
	}
	for _, p := range turns {
		if !format.JSON() {
			cli.PrintHeldTurn(stdout, p)
		} else if err := cli.PrintJSON(stdout, cli.HeldTurnLineOf(p)); err != nil {
			return err
		}
	}
	for _, p := range calls {
		if !format.JSON() {
			cli.PrintHeldCall(stdout, p)
		} else if err := cli.PrintJSON(stdout, cli.HeldCallLineOf(p)); err != nil {
			return err
		}
	}
	return nil
}
