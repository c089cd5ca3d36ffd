package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/agentd/prompt"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/subjects"
)

// deadLetters are the commands about what could not be carried out.
type deadLetters struct {
	flags cli.SessionFlags
	agent string
	tree  string
	all   bool
}

func deadCommand() *cobra.Command {
	d := &deadLetters{flags: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: "dead", Short: "See and retry what could not be carried out", Args: cobra.NoArgs,
		Long: `A message that was delivered again and again without effect, because it kills its workers or cannot be read, is given up:
its run ends as poisoned, its caller is told, and a copy of the message with the reason is kept as a dead letter.`,
		Example: `  axe dead list --agent reviewer
  axe dead show 4711
  id=$(axe dead retry 4711); axe-submit wait $id`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	d.flags.Register(cmd)
	d.flags.RegisterOutput(cmd)
	list := &cobra.Command{
		Use: "list", Short: "List the dead letters, the oldest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.list(cmd.Context(), cmd.OutOrStdout()) },
	}
	show := &cobra.Command{
		Use: "show LETTER", Short: "Show a dead letter, and what its run was asked", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.show(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	retry := &cobra.Command{
		Use: "retry LETTER… | --all", Short: "Submit the task of a dead letter again, as a tree of its own",
		Long: `Submit the task of a dead letter again, to the same agent, and print the id of the new tree, which axe-submit wait takes.
The tree that it was part of has been told of the failure and is not changed. A letter that was retried before is not
submitted again: it is the same tree, and its id is printed.`,
		RunE: func(cmd *cobra.Command, args []string) error { return d.retry(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	for _, sub := range []*cobra.Command{list, retry} {
		sub.Flags().StringVar(&d.agent, "agent", "", "only those of an agent; with retry, of a letter without one, the agent to submit to")
		sub.Flags().StringVar(&d.tree, "tree", "", "only those of a tree")
	}
	retry.Flags().BoolVar(&d.all, "all", false, "all that were not retried yet")
	cmd.AddCommand(list, show, retry)
	return cmd
}

// letter is what -o json prints of a dead letter, one line each.
type letter struct {
	ID      uint64    `json:"id"`
	Time    time.Time `json:"time"`
	Agent   string    `json:"agent,omitzero"`
	Tree    string    `json:"tree,omitzero"`
	Path    string    `json:"path,omitzero"`
	Reason  string    `json:"reason"`
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Retried string    `json:"retried,omitzero"` // the tree
	Task    string    `json:"task,omitzero"`    // show only
	Context string    `json:"context,omitzero"` // show only
	Body    string    `json:"body,omitzero"`    // show only
}

// about is what there is to say of a letter.
func about(ctx context.Context, ses *cli.Session, l client.Letter) (letter, error) {
	out := letter{
		ID: l.ID, Time: l.Time, Agent: l.Run.Agent.String(), Tree: l.Run.Tree.String(), Path: l.Run.Path.String(),
		Reason: l.Reason, Subject: l.Subject, Seq: l.Seq,
	}
	tried, err := ses.Tried(ctx, l)
	if tried {
		out.Retried = l.Again().String()
	}
	return out, err
}

func (d *deadLetters) list(ctx context.Context, stdout io.Writer) error {
	return d.with(ctx, func(ses *cli.Session) error {
		letters, err := d.chosen(ctx, ses)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		if len(letters) > 0 && d.flags.Output == "text" {
			fmt.Fprintln(w, "LETTER\tTIME\tAGENT\tTREE\tPATH\tRETRIED\tREASON")
		}
		for _, l := range letters {
			a, err := about(ctx, ses, l)
			if err != nil {
				return err
			}
			if d.flags.Output == "json" {
				err = printLine(w, a)
			} else {
				_, err = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.Time.Local().Format(time.DateTime), dash(a.Agent), dash(a.Tree), dash(a.Path), dash(a.Retried), a.Reason)
			}
			if err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

// chosen are the letters that the flags ask for.
func (d *deadLetters) chosen(ctx context.Context, ses *cli.Session) ([]client.Letter, error) {
	all, err := ses.Dead(ctx)
	if err != nil {
		return nil, err
	}
	var out []client.Letter
	for _, l := range all {
		agent, tree := l.Run.Agent.String(), l.Run.Tree.String()
		if (d.agent == "" || agent == d.agent) && (d.tree == "" || tree == client.Key(d.tree).String()) {
			out = append(out, l)
		}
	}
	return out, nil
}

func (d *deadLetters) show(ctx context.Context, stdout io.Writer, arg string) error {
	return d.with(ctx, func(ses *cli.Session) error {
		l, err := named(ctx, ses, arg)
		if err != nil {
			return err
		}
		a, err := about(ctx, ses, l)
		if err != nil {
			return err
		}
		in, _, err := ses.Asked(ctx, l)
		if err != nil {
			return err
		}
		a.Task, a.Context, a.Body = in.Task, in.Context, string(l.Body)
		if d.flags.Output == "json" {
			return printLine(stdout, a)
		}
		var t table
		t.add("Letter", strconv.FormatUint(a.ID, 10))
		t.add("Time", a.Time.Local().Format(time.RFC3339))
		t.add("Reason", a.Reason)
		t.add("Agent", a.Agent)
		t.add("Tree", a.Tree)
		t.add("Path", a.Path)
		t.add("Message", fmt.Sprintf("%s, %d of its stream", a.Subject, a.Seq))
		t.add("Retried", a.Retried)
		t.add("Task", a.Task)
		t.add("Context", a.Context)
		t.add("Body", a.Body)
		_, err = io.WriteString(stdout, t.String())
		return err
	})
}

func (d *deadLetters) retry(ctx context.Context, stdout io.Writer, args []string) error {
	if d.all == (len(args) > 0) || len(args) > 0 && d.tree != "" {
		return cli.Usage("want letters, or --all")
	}
	return d.with(ctx, func(ses *cli.Session) error {
		letters, err := d.toRetry(ctx, ses, args)
		if err != nil {
			return err
		}
		for _, l := range letters {
			task, err := d.task(ctx, ses, l)
			if err == nil {
				_, err = cli.Submit(ctx, ses.Client, task)
			}
			if err != nil {
				return fmt.Errorf("dead letter %d: %w", l.ID, err)
			}
			if _, err := fmt.Fprintln(stdout, task.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// toRetry are the letters that are named, or all that were not retried and can be.
func (d *deadLetters) toRetry(ctx context.Context, ses *cli.Session, args []string) ([]client.Letter, error) {
	var out []client.Letter
	for _, arg := range args {
		l, err := named(ctx, ses, arg)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	if !d.all {
		return out, nil
	}
	chosen, err := d.chosen(ctx, ses)
	if err != nil {
		return nil, err
	}
	for _, l := range chosen {
		if l.Run.Agent.IsZero() {
			continue
		}
		tried, err := ses.Tried(ctx, l)
		if err != nil {
			return nil, err
		}
		if !tried {
			out = append(out, l)
		}
	}
	return out, nil
}

// task is what a letter's run was asked, for a tree of its own.
func (d *deadLetters) task(ctx context.Context, ses *cli.Session, l client.Letter) (client.Task, error) {
	t := client.Task{Agent: l.Run.Agent, ID: l.Again(), Text: string(l.Body)}
	if t.Agent.IsZero() {
		var err error
		if t.Agent, err = subjects.ParseAgent(d.agent); err != nil {
			return client.Task{}, cli.Usage("it names no agent: --agent says which one is to have it: %v", err)
		}
		return t, nil
	}
	in, ok, err := ses.Asked(ctx, l)
	if err == nil && !ok {
		err = cli.Usage("what its run was asked cannot be read")
	}
	if t.Text = in.Task; !l.Run.Path.IsRoot() {
		t.Text = prompt.User(in.Task, in.Context)
	}
	return t, err
}

// with calls fn with an open session.
func (d *deadLetters) with(ctx context.Context, fn func(*cli.Session) error) error {
	ses, err := d.flags.Open(ctx)
	if err != nil {
		return err
	}
	defer ses.Conn.Close()
	return fn(ses)
}

// named is the letter that an argument names.
func named(ctx context.Context, ses *cli.Session, arg string) (client.Letter, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return client.Letter{}, cli.Usage("letter %q: want its number, as axe dead list has it", arg)
	}
	return ses.DeadLetter(ctx, id)
}

func printLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
