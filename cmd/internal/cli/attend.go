package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// waitFlags bound the wait for a tree.
type waitFlags struct {
	// patience is the longest wait, 0 without a bound.
	patience Seconds
	// until is the end of the patience; zero before the first wait.
	until time.Time
	// cancel cancels the tree when the wait ends early.
	cancel bool
	// artifacts gets the artifacts of the tree.
	artifacts ArtifactDir
}

func (w *waitFlags) register(cmd *cobra.Command) {
	cmd.Flags().Var(&w.patience, "patience",
		"time to wait for the answer: seconds, or a duration like 10m; 0 waits without a bound")
	cmd.Flags().BoolVar(&w.cancel, "cancel", false, "cancel the tree when the wait ends by ^C or --patience")
	w.artifacts.Register(cmd)
}

func (w *waitFlags) check() error {
	if w.patience < 0 {
		return Usage("--patience must not be negative, got %s", &w.patience)
	}
	return nil
}

// bound bounds a wait by what is left of the patience, which begins with the
// first wait.
func (w *waitFlags) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.patience == 0 {
		return context.WithCancel(ctx)
	}
	if w.until.IsZero() {
		w.until = time.Now().Add(time.Duration(w.patience))
	}
	return context.WithDeadlineCause(ctx, w.until, errImpatient)
}

// WaitCommand makes the wait subcommand of a command with the flags f.
func WaitCommand(f *SessionFlags) *cobra.Command {
	w := &waitFlags{}
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait for a tree and print its answer", Args: cobra.ExactArgs(1),
		Long: `Wait for a tree and print its answer, at once if it has ended. ID is the tree's
id, or the key of --id. ^C and --patience end the wait, and not the tree. With
--cancel they cancel the tree too.`,
		Example: `  ` + f.Name + ` wait 5Rt0yAkYxJ
  ` + f.Name + ` wait 5Rt0yAkYxJ --patience 30s -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.check(); err != nil {
				return err
			}
			return f.UseRun(cmd.Context(), args, func(ses *Session, t Target) error {
				return w.attend(cmd.Context(), f, ses, t.Tree)
			})
		},
	}
	w.register(cmd)
	f.Output.Register(cmd, outcomeOutput)
	return cmd
}

// outcomeOutput is the help of -o for commands that print an outcome.
const outcomeOutput = "text: the answer; json: the whole outcome, failed or not"

// errImpatient ends a wait after --patience. Its code is that of a timeout.
var errImpatient = Fail(CodeAPI, errors.New("no answer in time"))

// attend waits for a tree and prints its outcome.
func (w *waitFlags) attend(ctx context.Context, f *SessionFlags, ses *Session, tree subjects.Tree) error {
	wait, done := w.bound(ctx)
	defer done()
	outcome, err := ses.View.Wait(wait, ses.Client, tree)
	if errors.Is(err, errImpatient) {
		// The patience may be shorter than the search for the tree.
		if _, e := ses.RootState(ctx, tree); errors.Is(e, client.ErrUnknownTree) {
			return e
		}
	}
	_, signal := errors.AsType[SignalError](err)
	switch {
	case err == nil:
		Warn(f.Name, outcome)
		failed := Explain(ctx, ses.Conn, Print(os.Stdout, f.Output, outcome), outcome)
		return w.artifacts.Save(ctx, f.Name, TreeClient{ses.Client, tree}, failed)
	case errors.Is(err, client.ErrNeverTaken):
		return fmt.Errorf("%w; submit it again with --id %s", err, tree)
	case !signal && !errors.Is(err, errImpatient):
		return err
	case w.cancel:
		return fmt.Errorf("%w, %s", err, CancelAbandoned(ctx, ses.Client, tree, err.Error()))
	case signal:
		err = Fail(Code(err), errors.New("detached"))
	}
	return fmt.Errorf("%w, the tree goes on; to attach again: %s wait %s%s", err, f.Name, tree, f.dial.given())
}
