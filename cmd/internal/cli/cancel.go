package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// cancellation is a command that cancels a run and all runs below it.
type cancellation struct {
	done   string // past participle for messages
	reason string
	wait   bool
}

// CancelCommand makes the cancel subcommand of a command with the flags f.
func CancelCommand(f *SessionFlags) *cobra.Command {
	c := &cancellation{done: "cancelled"}
	return c.command(f, "", &cobra.Command{
		Use: "cancel ID [PATH]", Short: "Cancel a tree, or a run and all runs below it", Args: RunArgs,
		Long: `Cancel a whole tree or, with a PATH, a run and all runs below it. --progress
plain and outcomes show paths: r-1-0 is the first call of the root's first turn.
The caller of a cancelled run is told and goes on.

The command returns when the cancellation is stored. From then on no model is
asked, requests in flight are aborted, and the cancelled run answers at once
with its partial results. --wait waits until every run below has ended too, and
shows the runs that have not. A second cancellation before the end changes
nothing. After the end it is an error, unless with --wait.`,
		Example: `  ` + f.Name + ` cancel 5Rt0yAkYxJ --reason "wrong branch"
  ` + f.Name + ` cancel 5Rt0yAkYxJ r-1-2 --wait`,
	})
}

// KillCommand makes the kill subcommand: a cancellation in the words of the
// tool kill.
func KillCommand(f *SessionFlags) *cobra.Command {
	c := &cancellation{done: "killed"}
	return c.command(f, "killed by "+client.DefaultName, &cobra.Command{
		Use: "kill ID [PATH]", Short: "End a fork, or a tree, as the tool kill does", Args: RunArgs,
		Long: `End a run and all runs below it, as an agent does with the tool kill: the whole
tree or, with a PATH, a run below the root. axe mail and --progress plain show
paths: r-1-0 is the run of the first call of the root's first turn. The parent
of a fork gets mail that the fork is dead.

The command is axe cancel with another reason. It returns when the cancellation
is stored. --wait waits until all runs have ended.`,
		Example: `  ` + f.Name + ` kill 5Rt0yAkYxJ r-1-0 --wait
  ` + f.Name + ` kill 5Rt0yAkYxJ`,
	})
}

func (c *cancellation) command(f *SessionFlags, reason string, cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), f, args) }
	cmd.Flags().StringVar(&c.reason, "reason", reason, "the reason, which the outcome shows")
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until all "+c.done+" runs have ended")
	return cmd
}

func (c *cancellation) run(ctx context.Context, f *SessionFlags, args []string) error {
	return f.UseRun(ctx, args, func(ses *Session, t Target) error {
		switch err := ses.Cancel(ctx, t.Tree, t.Path, c.reason); {
		case err == nil:
			fmt.Fprintf(os.Stderr, "%s: %s is %s\n", f.Name, t, c.done)
		case errors.Is(err, client.ErrCancelled), errors.Is(err, client.ErrEnded) && c.wait:
			fmt.Fprintf(os.Stderr, "%s: %v\n", f.Name, err)
		default:
			return err
		}
		if !c.wait {
			return nil
		}
		left, err := ses.View.WaitEnded(ctx, ses.Client, t.Tree, t.Path)
		if err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%d runs have no outcome after their deadline: no worker serves their agents", left)
		}
		fmt.Fprintf(os.Stderr, "%s: all runs have ended\n", f.Name)
		return nil
	})
}

// abandonTimeout bounds the time for a cancellation and the end of its tree.
const abandonTimeout = 3 * time.Second

// CancelAbandoned cancels a tree that its submitter no longer waits for, and
// waits for the end of the tree, in all at most abandonTimeout. It returns a
// text for the error message.
func CancelAbandoned(ctx context.Context, c *client.Client, tree subjects.Tree, why string) string {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer done()
	err := c.Cancel(ctx, tree, subjects.Root, why)
	if err != nil && !errors.Is(err, client.ErrEnded) && !errors.Is(err, client.ErrCancelled) {
		return fmt.Sprintf("and the tree %s could not be cancelled: %v", tree, err)
	}
	switch o, err := c.Wait(ctx, tree); {
	case err != nil:
		return "the tree " + tree.String() + " is being cancelled"
	case o.Kind != run.KindCancelled:
		return "the tree " + tree.String() + " had just ended: " + string(o.Status)
	}
	return "the tree was cancelled"
}
