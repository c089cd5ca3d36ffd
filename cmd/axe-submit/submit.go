package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// submission holds the flags of the command without a subcommand.
type submission struct {
	file    string
	id      string
	detach  bool
	timeout cli.Seconds
	flags   cli.SessionFlags
	wait    waitFlags
	limits  cli.BudgetFlags
	cmd     *cobra.Command
}

func (s *submission) register(cmd *cobra.Command) {
	s.cmd = cmd
	cmd.Flags().StringVarP(&s.file, "file", "f", "", "file with the task, or more of it; - for stdin")
	cmd.Flags().StringVar(&s.id, "id", "",
		"key that makes the submission idempotent; a key of letters and digits is the tree's id")
	cmd.Flags().BoolVar(&s.detach, "detach", false, "print the tree's id and do not wait")
	s.wait.register(cmd)
	s.limits.Register(cmd)
	cmd.Flags().Var(&s.timeout, "timeout",
		"time limit of the whole tree: seconds, or a duration like 10m; 0 takes the limit of the workers")
}

func (s *submission) run(ctx context.Context, args []string) error {
	task, err := s.task(ctx, args)
	if err != nil {
		return err
	}
	return s.flags.Use(ctx, func(ses *cli.Session) error { return s.submit(ctx, ses, task) })
}

func (s *submission) submit(ctx context.Context, ses *cli.Session, task client.Task) error {
	tree, err := cli.Submit(ctx, ses.Client, task)
	if err != nil {
		return err
	}
	if s.detach {
		return cli.PrintTree(os.Stdout, s.flags.Output, tree)
	}
	if s.id != "" {
		fmt.Fprintf(os.Stderr, "%s: tree %s\n", name, tree)
	} else {
		ses.View.Notef("tree %s", tree)
	}
	return s.wait.attend(ctx, ses, tree, s.flags.Output, time.Duration(s.timeout))
}

// task makes a task from the command line. It checks everything before anything
// is sent.
func (s *submission) task(ctx context.Context, args []string) (client.Task, error) {
	agent, err := subjects.ParseAgent(args[0])
	if err != nil {
		return client.Task{}, err
	}
	task := client.Task{Agent: agent, Timeout: time.Duration(s.timeout)}
	if s.timeout < 0 {
		return client.Task{}, cli.Usage("--timeout must not be negative, got %s", &s.timeout)
	}
	if err := s.wait.check(); err != nil {
		return client.Task{}, err
	}
	if s.detach && s.wait != (waitFlags{}) {
		return client.Task{}, cli.Usage("--detach does not wait: it excludes --patience and --cancel")
	}
	if task.Budget, err = s.limits.Budget(); err != nil {
		return client.Task{}, err
	}
	if s.cmd.Flags().Changed("id") {
		if s.id == "" {
			return client.Task{}, cli.Usage("--id must not be empty")
		}
		task.ID = client.TreeID(s.id)
	}
	from := cli.TaskFlags{Program: name, File: s.file, Limit: s.flags.MaxBody()}
	if len(args) > 1 {
		from.Text = &args[1]
	}
	text, err := from.Read(ctx)
	task.Text = text.Text
	return task, err
}
