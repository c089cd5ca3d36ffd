package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// forgetting holds the flags of axe forget.
type forgetting struct {
	session cli.SessionFlags
	yes     bool
}

func forgetCommand() *cobra.Command {
	f := &forgetting{session: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: "forget ID...", Short: "Remove ended trees and all that belongs to them", Args: cobra.MinimumNArgs(1),
		Long: `Remove trees for good: their tasks, messages and answers, results, timers, dead
letters, large bodies and artifacts. Later their ids are unknown. axe verify
finds nothing wrong with the streams that they were on.

A tree at work is refused: cancel it first. A tree that has just ended is
removed after three seconds without a new message. Trees that are not there are
no error, so the command can be repeated.

The command asks at a terminal, where ids may be shortened: the question has the
full ids. If several trees have the beginning of an id, that is an error, and
nothing is removed. --yes is the answer for scripts. With it each id is taken as
it is.

Copies stay where they are not on the streams: in the memory of agents (axe gc),
in backups and exports, in the logs of workers, and at the models' providers. A
tree that axe fork has made continues on its source: forget it too.

Exit codes: 0 removed, or not there; 1 a tree is at work, or the answer was no;
2 usage.`,
		Example: `  axe forget order4711
  axe cancel order4712 --wait; axe forget order4711 order4712 --yes`,
		RunE: f.run,
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask, and take each id as it is")
	f.session.Register(cmd)
	return cmd
}

func (f *forgetting) run(cmd *cobra.Command, ids []string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if asked := cli.Terminal(os.Stdin) && cli.Terminal(os.Stderr); !f.yes && !asked {
		return cli.Usage("--yes is needed where no person can be asked")
	}
	return f.session.Use(ctx, func(ses *cli.Session) error {
		trees, err := targets(ids, func(id string) (cli.Target, error) {
			if f.yes { // no person sees the full id
				return cli.ParseTarget(id)
			}
			return ses.Target(ctx, id)
		})
		if err != nil {
			return err
		}
		if err := f.confirm(ctx, stderr, trees); err != nil {
			return err
		}
		var failed []error
		for _, t := range trees {
			switch found, err := client.Forget(ctx, ses.Client, t); {
			case err != nil:
				failed = append(failed, err)
			case !found:
				fmt.Fprintf(stderr, "%s: tree %s is not there\n", name, t)
			default:
				fmt.Fprintf(stderr, "%s: tree %s is removed\n", name, t)
			}
			if ctx.Err() != nil {
				break
			}
		}
		return errors.Join(failed...)
	})
}

// targets returns the trees that some ids name, each once. Read reads an id.
func targets(ids []string, read func(id string) (cli.Target, error)) (trees []subjects.Tree, _ error) {
	for _, id := range ids {
		t, err := read(id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(trees, t.Tree) {
			trees = append(trees, t.Tree)
		}
	}
	return trees, nil
}

// errKept is the error after the answer no.
var errKept = errors.New("nothing was removed")

// confirm asks the person at the terminal.
func (f *forgetting) confirm(ctx context.Context, stderr io.Writer, trees []subjects.Tree) error {
	if f.yes {
		return nil
	}
	names, them := trees[0].String(), "it"
	for _, t := range trees[1:] {
		names, them = names+", "+t.String(), "them"
	}
	fmt.Fprintf(stderr, "Remove %s and all that belongs to %s, for good? [y/N] ", names, them)
	lines := make(chan string, 1)
	go func() { // ends with the line, or with the process
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		lines <- line
	}()
	select {
	case line := <-lines:
		if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
			return nil
		}
		return errKept
	case <-ctx.Done():
		fmt.Fprintln(stderr)
		return context.Cause(ctx)
	}
}
