package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// The texts of the command that submits a task. SUBMIT stands for the command,
// PROGRAM for its program.
const (
	submitLong = `Submit a task to an agent on the bus, wait for the outcome of the whole tree,
and print the answer on stdout. While the tree works, stderr shows it, if stderr
is a terminal and the answer does not go into a pipe.

The task is the second argument, a file (-f), or the standard input. ^C
detaches: the tree goes on, and "PROGRAM wait ID" attaches again. --patience
detaches after a time. With --cancel the tree is cancelled instead. --timeout is
the time limit of the tree itself. --id makes a submission idempotent: the same
key gives the same tree and the same result, however often it is submitted.

The bus is at --server or NATS_URL, in --context or NATS_CONTEXT (a context of
the nats CLI), or at nats://127.0.0.1:4222. "nats pub axe.submit.AGENT.ID TEXT"
publishes the same submission.

Exit codes: 0 answered, 1 the agent failed, 2 usage, bad name or unknown agent,
3 the model's provider failed or the time or the patience was over, 4 a limit on
the tree, 5 cancelled, 130 detached by ^C.`

	submitExamples = `  SUBMIT lead "Review the bus package"
  git diff | SUBMIT reviewer "Focus on security"
  SUBMIT lead -f task.md --timeout 10m -o json
  SUBMIT lead "Quickly" --patience 30s --cancel       # within 30 s or never
  id=$(SUBMIT lead "Review the bus package" --detach); PROGRAM wait $id
  SUBMIT nightly --id "$(date +%F)" "Summarise yesterday"  # one tree a day
  PROGRAM cancel $id --reason "wrong branch"`
)

// SubmitCommand makes the command that submits a task, with the flags f. Name
// is the command's name. It equals f.Name if the command is the program's root,
// and otherwise names a subcommand.
func SubmitCommand(f *SessionFlags, name string) *cobra.Command {
	s := &submission{flags: f}
	path := name
	if name != f.Name {
		path = f.Name + " " + name
	}
	texts := strings.NewReplacer("SUBMIT", path, "PROGRAM", f.Name)
	cmd := &cobra.Command{
		Use: name + " AGENT [TEXT]", Short: "Submit a task to an agent and print the answer",
		Long: texts.Replace(submitLong), Example: texts.Replace(submitExamples),
		Args: AgentAndText,
		RunE: func(cmd *cobra.Command, args []string) error { return s.run(cmd.Context(), args) },
	}
	s.register(cmd)
	return cmd
}

// submission holds the flags of the command that submits a task.
type submission struct {
	file    string
	id      string
	detach  bool
	timeout Seconds
	flags   *SessionFlags
	wait    waitFlags
	limits  BudgetFlags
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
	s.flags.Output.Register(cmd, outcomeOutput)
	cmd.Flags().Var(&s.timeout, "timeout",
		"time limit of the whole tree: seconds, or a duration like 10m; the workers' limit bounds it, and 0 takes that")
}

func (s *submission) run(ctx context.Context, args []string) error {
	task, err := s.task(ctx, args)
	if err != nil {
		return err
	}
	return s.flags.Use(ctx, func(ses *Session) error { return s.submit(ctx, ses, task) })
}

func (s *submission) submit(ctx context.Context, ses *Session, task client.Task) error {
	wait, done := s.wait.bound(ctx)
	defer done()
	tree, err := Submit(wait, ses.Client, task)
	if err != nil {
		return err
	}
	if s.detach {
		return PrintTree(os.Stdout, s.flags.Output, tree)
	}
	if s.id != "" {
		fmt.Fprintf(os.Stderr, "%s: tree %s\n", s.flags.Name, tree)
	} else {
		ses.View.Notef("tree %s", tree)
	}
	err = s.wait.attend(ctx, s.flags, ses, tree)
	if errors.Is(err, client.ErrUnknownTree) {
		// The task was stored a moment ago.
		err = fmt.Errorf("%w: %s; submit it again with --id %s", client.ErrNeverTaken, tree, tree)
	}
	return err
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
		return client.Task{}, Usage("--timeout must not be negative, got %s", &s.timeout)
	}
	if err := s.wait.check(); err != nil {
		return client.Task{}, err
	}
	if s.detach && s.wait != (waitFlags{}) {
		return client.Task{}, Usage("--detach does not wait: it excludes --patience, --cancel and --artifact-dir")
	}
	if task.Budget, err = s.limits.Budget(); err != nil {
		return client.Task{}, err
	}
	if s.cmd.Flags().Changed("id") {
		if s.id == "" {
			return client.Task{}, Usage("--id must not be empty")
		}
		task.ID = client.TreeID(s.id)
	}
	from := TaskFlags{Program: s.flags.Name, File: s.file, Limit: s.flags.MaxBody()}
	if len(args) > 1 {
		from.Text = &args[1]
	}
	text, err := from.Read(ctx)
	task.Text = text.Text
	return task, err
}
