package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

func (d *deadLetters) list(ctx context.Context, stdout io.Writer) error {
	return d.flags.Use(ctx, func(ses *cli.Session) error {
		letters, err := d.selected(ctx, ses)
		if err != nil {
			return err
		}
		lines := make([]cli.LetterLine, len(letters))
		for i, l := range letters {
			if lines[i], err = cli.LetterLineOf(ctx, ses.Client, l); err != nil {
				return err
			}
		}
		const title = "LETTER\tTIME\tAGENT\tTREE\tPATH\tRETRIED\tREASON"
		return list[cli.LetterLine]{title, func(l cli.LetterLine) string {
			return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", l.ID, l.Time.Local().Format(time.DateTime),
				dash(l.Agent), dash(l.Tree), dash(l.Path), dash(l.Retried), cli.Printable(l.Reason))
		}}.print(stdout, d.flags.Output, lines)
	})
}

// selected returns the letters that match --agent and --tree.
func (d *deadLetters) selected(ctx context.Context, ses *cli.Session) ([]client.DeadLetter, error) {
	all, err := ses.DeadLetters(ctx)
	return slices.DeleteFunc(all, func(l client.DeadLetter) bool {
		return d.agent != "" && d.agent != l.Run.Agent.String() || d.tree != "" && client.TreeID(d.tree) != l.Run.Tree
	}), err
}

func (d *deadLetters) show(ctx context.Context, stdout io.Writer, arg string) error {
	return d.flags.Use(ctx, func(ses *cli.Session) error {
		l, err := findLetter(ctx, ses, arg)
		if err != nil {
			return err
		}
		a, err := cli.LetterLineOf(ctx, ses.Client, l)
		if err != nil {
			return err
		}
		if err := a.AddTask(ctx, ses.Client, l); err != nil {
			return err
		}
		if d.flags.Output.JSON() {
			return cli.PrintJSON(stdout, a)
		}
		var t table
		t.add("Letter", strconv.FormatUint(a.ID, 10))
		t.add("Time", a.Time.Local().Format(time.RFC3339))
		t.add("Reason", harmless(a.Reason))
		t.add("Agent", a.Agent)
		t.add("Tree", a.Tree)
		t.add("Path", a.Path)
		t.add("Message", fmt.Sprintf("%s, %d of its stream", cli.Printable(a.Subject), a.Seq))
		t.add("Retried", a.Retried)
		t.add("Task", harmless(a.Task))
		t.add("Context", harmless(a.Context))
		t.add("Body", harmless(a.Body))
		_, err = io.WriteString(stdout, t.String())
		return err
	})
}

// harmless removes terminal control characters from each line of an untrusted
// text.
func harmless(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = cli.Printable(line)
	}
	return strings.Join(lines, "\n")
}

func dash(s string) string { return cmp.Or(s, "-") }
