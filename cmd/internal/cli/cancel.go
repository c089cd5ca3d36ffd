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

// cancellation is the command that cancels a run and all below it.
type cancellation struct {
	done   string // what it then is
	reason string
	wait   bool
}

// CancelCommand makes the subcommand of a command whose flags they are.
func CancelCommand(f *SessionFlags) *cobra.Command {
	c := &cancellation{done: "cancelled"}
	return c.command(f, "", &cobra.Command{
		Use: "cancel ID [PATH]", Short: "Cancel a tree, or a run in it and all below that", Args: cobra.RangeArgs(1, 2),
		Long: `Cancel a tree: the agent and all below it. With a PATH, as --progress plain and outcomes have it (r-1-0 is the first call
of the root's first turn), that run and all below it; its caller is told, and goes on.

The command returns when the cancellation is stored: no model is asked from then on, requests in flight are aborted, and
the cancelled run answers at once, with what results there are. --wait waits until every run below has ended too, and shows
which have not. What was cancelled before is fine, what has ended is an error.`,
		Example: `  ` + f.Name + ` cancel 5Rt0yAkYxJ --reason "wrong branch"
  ` + f.Name + ` cancel 5Rt0yAkYxJ r-1-2 --wait`,
	})
}

// KillCommand is CancelCommand in the words of those who work beside each
// other.
func KillCommand(f *SessionFlags) *cobra.Command {
	c := &cancellation{done: "killed"}
	return c.command(f, "killed by "+client.DefaultName, &cobra.Command{
		Use: "kill ID [PATH]", Short: "End a fork, or a tree, as the tool kill does", Args: cobra.RangeArgs(1, 2),
		Long: `End a run and all that work for it, as an agent does with the tool kill: the run of a PATH, as axe mail and --progress plain
have it (r-1-0 is what the first call of the root's first turn has made), or the tree. Who has forked the run gets mail that
it is dead.

It is axe cancel with another reason: the command returns when that is stored, and --wait waits until all of it has ended.`,
		Example: `  ` + f.Name + ` kill 5Rt0yAkYxJ r-1-0 --wait
  ` + f.Name + ` kill 5Rt0yAkYxJ`,
	})
}

func (c *cancellation) command(f *SessionFlags, reason string, cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), f, args) }
	cmd.Flags().StringVar(&c.reason, "reason", reason, "why, for whoever reads the outcome")
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until all that is "+c.done+" has ended")
	return cmd
}

// Target is the run that the first arguments of a command name: a tree's id, or
// the key of --id, and perhaps a path. What says so in words.
func Target(id string, path ...string) (tree subjects.Tree, p subjects.Path, what string, err error) {
	tree, p = client.TreeID(id), subjects.Root
	what = "tree " + tree.String()
	if len(path) > 0 {
		p, err = subjects.ParsePath(path[0])
		what = "run " + p.String() + " of " + what
	}
	return tree, p, what, err
}

func (c *cancellation) run(ctx context.Context, f *SessionFlags, args []string) error {
	tree, path, what, err := Target(args[0], args[1:]...)
	if err != nil {
		return err
	}
	ses, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer ses.Conn.Close()
	switch err := ses.Cancel(ctx, tree, path, c.reason); {
	case err == nil:
		fmt.Fprintf(os.Stderr, "%s: %s is %s\n", f.Name, what, c.done)
	case errors.Is(err, client.ErrCancelled), errors.Is(err, client.ErrEnded) && c.wait:
		fmt.Fprintf(os.Stderr, "%s: %v\n", f.Name, err)
	default:
		return Named(args[0], err)
	}
	if !c.wait {
		return nil
	}
	left, err := ses.View.Settle(ctx, ses.Client, tree, path)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d runs have no outcome though their time is over: no worker serves their agents", left)
	}
	fmt.Fprintf(os.Stderr, "%s: all of it has ended\n", f.Name)
	return nil
}

// Named says which key stands behind a tree id that its user has not seen.
func Named(key string, err error) error {
	if errors.Is(err, client.ErrUnknownTree) && client.TreeID(key).String() != key {
		return fmt.Errorf("%w (of key %q)", err, key)
	}
	return err
}

// farewell is how long the end of an abandoned tree is waited for.
const farewell = 3 * time.Second

// Abandon cancels a tree that its user has left, waits a moment for its end,
// and says what came of it.
func Abandon(ctx context.Context, c *client.Client, tree subjects.Tree, why string) string {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer done()
	err := c.Cancel(ctx, tree, subjects.Root, why)
	if err != nil && !errors.Is(err, client.ErrEnded) && !errors.Is(err, client.ErrCancelled) {
		return fmt.Sprintf("and the tree %s could not be cancelled: %v", tree, err)
	}
	switch o, err := c.Wait(ctx, tree); {
	case err != nil:
		return "the tree " + tree.String() + " is being cancelled"
	case o.Kind != run.KindCancelled:
		return "the tree " + tree.String() + " had ended just then: " + string(o.Status)
	}
	return "the tree was cancelled"
}
