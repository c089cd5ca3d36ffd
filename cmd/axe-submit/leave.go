package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// leaving says when a tree is not waited for any longer, and what becomes of it
// then.
type leaving struct {
	patience cli.Seconds
	cancel   bool
}

func (l *leaving) register(cmd *cobra.Command) {
	cmd.Flags().Var(
		&l.patience,
		"patience",
		"how long to wait for the answer: seconds, or a duration like 10m; 0: as long as it takes",
	)
	cmd.Flags().BoolVar(
		&l.cancel,
		"cancel",
		false,
		"cancel the tree when it is not waited for any longer: by ^C, or after --patience",
	)
}

func (l *leaving) check() error {
	if l.patience < 0 {
		return cli.Usage("--patience %s: want more than nothing", &l.patience)
	}
	return nil
}

// errImpatient is the end of a wait that was as long as it may be.
var errImpatient = errors.New("no answer in time")

// attend waits for a tree and prints what came of it. Limit is the tree's own
// time, 0 if that is not known.
func (l *leaving) attend(
	ctx context.Context,
	ses *cli.Session,
	tree subjects.Tree,
	output string,
	limit time.Duration,
) error {
	waiting := ctx
	if l.patience > 0 {
		var done context.CancelFunc
		waiting, done = context.WithTimeoutCause(ctx, time.Duration(l.patience), errImpatient)
		defer done()
	}
	outcome, err := ses.View.Attend(waiting, ses.Client, tree, limit)
	_, signal := errors.AsType[cli.SignalError](err)
	switch {
	case err == nil:
		return cli.Print(os.Stdout, output, outcome)
	case !signal && !errors.Is(err, errImpatient):
		return err
	case l.cancel:
		return cli.Fail(code(err), fmt.Errorf("%w, %s", err, cli.Abandon(ctx, ses.Client, tree, err.Error())))
	case signal:
		err = cli.Fail(code(err), errors.New("detached"))
	}
	return cli.Fail(code(err), fmt.Errorf("%w, the tree goes on; to attach again: %s wait %s", err, name, tree))
}

// code is that of a time that is over, for patience too.
func code(err error) int {
	if errors.Is(err, errImpatient) {
		return cli.CodeAPI
	}
	return cli.Code(err)
}
