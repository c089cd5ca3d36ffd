package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// waitFlags bound the wait for a tree.
type waitFlags struct {
	// patience is the longest wait, 0 without a bound.
	patience cli.Seconds
	// cancel cancels the tree when the wait ends early.
	cancel bool
}

func (l *waitFlags) register(cmd *cobra.Command) {
	cmd.Flags().Var(&l.patience, "patience",
		"time to wait for the answer: seconds, or a duration like 10m; 0 waits without a bound")
	cmd.Flags().BoolVar(&l.cancel, "cancel", false, "cancel the tree when the wait ends by ^C or --patience")
}

func (l *waitFlags) check() error {
	if l.patience < 0 {
		return cli.Usage("--patience must not be negative, got %s", &l.patience)
	}
	return nil
}

// errImpatient ends a wait after --patience. Its code is that of a timeout.
var errImpatient = cli.Fail(cli.CodeAPI, errors.New("no answer in time"))

// attend waits for a tree and prints its outcome. Limit is the time limit of
// the tree, 0 if it is not known.
func (l *waitFlags) attend(
	ctx context.Context, ses *cli.Session, tree subjects.Tree, output string, limit time.Duration,
) error {
	wait := ctx
	if l.patience > 0 {
		var done context.CancelFunc
		wait, done = context.WithTimeoutCause(ctx, time.Duration(l.patience), errImpatient)
		defer done()
	}
	outcome, err := ses.View.Wait(wait, ses.Client, tree, limit)
	if errors.Is(err, errImpatient) {
		// The patience may be shorter than the search for the tree.
		if _, e := ses.RootState(ctx, tree); errors.Is(e, client.ErrUnknownTree) {
			return e
		}
	}
	_, signal := errors.AsType[cli.SignalError](err)
	switch {
	case err == nil:
		cli.Warn(name, outcome)
		return cli.Print(os.Stdout, output, outcome)
	case !signal && !errors.Is(err, errImpatient):
		return err
	case l.cancel:
		return fmt.Errorf("%w, %s", err, cli.CancelAbandoned(ctx, ses.Client, tree, err.Error()))
	case signal:
		err = cli.Fail(cli.Code(err), errors.New("detached"))
	}
	return fmt.Errorf("%w, the tree goes on; to attach again: %s wait %s", err, name, tree)
}
