package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/subjects"
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
			task, err := d.task(ctx, ses, l)
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

// task makes a task for a new tree from the input of the letter's run. For a
// letter that names no agent, the body of the letter is the text.
func (d *deadLetters) task(ctx context.Context, ses *cli.Session, l client.DeadLetter) (client.Task, error) {
	t := client.Task{Agent: l.Run.Agent, ID: l.RetryTree(), Text: string(l.Body)}
	if t.Agent.IsZero() {
		var err error
		if t.Agent, err = subjects.ParseAgent(d.agent); err != nil {
			return client.Task{}, cli.Usage("the letter names no agent: name one with --agent: %v", err)
		}
		return t, nil
	}
	if d.agent != "" && d.agent != t.Agent.String() {
		return client.Task{}, cli.Usage("the letter names agent %s: --agent is for letters that name no agent", t.Agent)
	}
	in, limits, ok, err := ses.OriginalCall(ctx, l)
	t.Budget = limits
	switch {
	case err != nil:
	case !ok:
		err = cli.Usage("the input of its run cannot be read")
	case in.AdHoc():
		err = cli.Usage("its run was an ad hoc run: %s is its parent's agent", t.Agent)
	case !in.Policy.IsZero():
		err = cli.Usage("its run was under the policies of the runs above it, and a new tree would not be")
	}
	t.Text = in.Task
	if !l.Run.Path.IsRoot() {
		t.Text = prompt.User(in.Task, in.Context)
	}
	return t, err
}
