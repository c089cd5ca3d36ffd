package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

func (d *deadLetters) retry(ctx context.Context, stdout io.Writer, args []string) error {
	switch {
	case d.all == (len(args) > 0):
		return cli.Usage("name letters, or give --all")
	case !d.all && d.tree != "":
		return cli.Usage("--tree does not apply to a named letter: it selects letters with --all")
	}
	return d.flags.Use(ctx, func(ses *cli.Session) error {
		letters, err := d.toRetry(ctx, ses, args)
		if err != nil {
			return err
		}
		var failed []error
		for _, l := range letters {
			task, err := cli.RetryTask(ctx, ses.Client, l, d.agent)
			if err == nil {
				_, err = cli.Submit(ctx, ses.Client, task)
			}
			if err == nil {
				err = cli.PrintTree(stdout, d.flags.Output, task.ID)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("dead letter %d: %w", l.ID, err))
			}
			if ctx.Err() != nil {
				break
			}
		}
		return errors.Join(failed...)
	})
}

// toRetry returns the named letters. With --all it returns the letters that
// name an agent and were not retried yet.
func (d *deadLetters) toRetry(ctx context.Context, ses *cli.Session, args []string) ([]client.DeadLetter, error) {
	var out []client.DeadLetter
	for _, arg := range args {
		l, err := findLetter(ctx, ses, arg)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	if !d.all {
		return out, nil
	}
	selected, err := d.selected(ctx, ses)
	if err != nil {
		return nil, err
	}
	for _, l := range selected {
		if l.Run.Agent.IsZero() {
			continue
		}
		tried, err := ses.Retried(ctx, l)
		if err != nil {
			return nil, err
		}
		if !tried {
			out = append(out, l)
		}
	}
	return out, nil
}
