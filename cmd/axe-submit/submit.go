package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// submission is the command without a subcommand.
type submission struct {
	file    string
	id      string
	detach  bool
	timeout cli.Seconds
	cmd     *cobra.Command
}

func (s *submission) register(cmd *cobra.Command) {
	s.cmd = cmd
	cmd.Flags().StringVarP(&s.file, "file", "f", "", "file with the text, - for stdin")
	cmd.Flags().StringVar(&s.id, "id", "", "key that makes the submission idempotent: letters and digits are the tree's id as they are")
	cmd.Flags().BoolVar(&s.detach, "detach", false, "print the tree's id and do not wait")
	cmd.Flags().Var(&s.timeout, "timeout", "the longest that the whole tree may take: seconds, or a duration like 10m; 0: what the workers allow")
}

func (s *submission) run(ctx context.Context, o *options, args []string) error {
	task, err := s.task(ctx, o, args)
	if err != nil {
		return err
	}
	ses, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer ses.conn.Close()
	tree, err := cli.Submit(ctx, ses.Client, task)
	if err != nil {
		return err
	}
	if s.detach {
		return detached(o.output, tree)
	}
	if s.id != "" {
		fmt.Fprintf(os.Stderr, "%s: tree %s\n", name, tree)
	} else {
		ses.view.Note("tree %s", tree)
	}
	return ses.finish(ctx, tree, o.output, time.Duration(s.timeout))
}

// detached prints the tree's id, to be waited for by somebody else.
func detached(output string, tree subjects.Tree) error {
	format := "%s\n"
	if output == "json" {
		format = `{"tree":"%s"}` + "\n" // letters and digits
	}
	_, err := fmt.Printf(format, tree)
	return err
}

// task is what the command line says is to be done. It is checked before anything is sent.
func (s *submission) task(ctx context.Context, o *options, args []string) (client.Task, error) {
	agent, err := subjects.ParseAgent(args[0])
	if err != nil {
		return client.Task{}, err
	}
	task := client.Task{Agent: agent, Timeout: time.Duration(s.timeout)}
	if s.timeout < 0 {
		return client.Task{}, cli.Usage("--timeout %s: want more than nothing", &s.timeout)
	}
	if s.cmd.Flags().Changed("id") {
		if s.id == "" {
			return client.Task{}, cli.Usage("--id: the key is empty")
		}
		task.ID = client.Key(s.id)
	}
	var arg *string
	if len(args) > 1 {
		arg = &args[1]
	}
	task.Text, err = cli.TaskText(ctx, name, arg, s.file, o.dial.MaxBody())
	return task, err
}

// finish waits for a tree and prints what came of it. ^C leaves the tree alone.
func (ses *session) finish(ctx context.Context, tree subjects.Tree, output string, timeout time.Duration) error {
	outcome, err := ses.view.Attend(ctx, ses.Client, tree, timeout)
	if _, left := errors.AsType[cli.SignalError](err); left {
		return cli.Fail(cli.Code(err), fmt.Errorf("detached, the tree goes on; to attach again: %s wait %s", name, tree))
	}
	if err != nil {
		return err
	}
	return cli.Print(os.Stdout, output, outcome)
}
