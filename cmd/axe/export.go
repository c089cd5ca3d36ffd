package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/subjects"
)

// exporting holds the flags of axe export.
type exporting struct{ session cli.SessionFlags }

func exportCommand() *cobra.Command {
	x := &exporting{session: cli.SessionFlags{Name: name, Looks: true, HandsOn: true}}
	cmd := &cobra.Command{
		Use: "export ID...", Short: "Write trees to a file", Args: cobra.MinimumNArgs(1),
		Long: `Write trees to stdout, as lines of JSON: the messages of all runs as they are
stored, the results, tallies and dead letters, large bodies and artifacts. The
trees stay where they are. axe import stores them on a bus, and axe verify
--file checks them without one.

A tree at work is exported as it is now, with a warning: axe import refuses it.
Timers and the memory of agents are left out. A message that names a large body
which is no longer stored is exported without the body, with a warning.

The file holds tasks, answers and results in plain text: guard it as the bus.

Exit codes: 0 exported, 1 the bus could not be read, 2 usage or an unknown id.`,
		Example: `  axe export order4711 order4712 > trees.jsonl
  axe export order4711 | gzip > order4711.jsonl.gz
  axe export order4711 > order4711.jsonl && axe forget order4711 --yes`,
		RunE: x.run,
	}
	x.session.Register(cmd)
	cmd.AddCommand(exportOTelCommand(&x.session))
	return cmd
}

func (x *exporting) run(cmd *cobra.Command, args []string) error {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if f, ok := stdout.(*os.File); ok && cli.Terminal(f) {
		return cli.Usage("stdout is a terminal: axe export %s > trees.jsonl", strings.Join(args, " "))
	}
	return x.session.Use(ctx, func(ses *cli.Session) error {
		trees, err := targets(args, func(id string) (cli.Target, error) { return ses.Target(ctx, id) })
		if err != nil {
			return err
		}
		w := archive.NewWriter(stdout, ses.Conn.Clocks.Now())
		for _, t := range trees {
			e, err := client.Export(ctx, ses.Client, w, t)
			if err != nil {
				return err
			}
			if e.AtWork {
				fmt.Fprintf(stderr, "%s: warning: tree %s is at work: axe import refuses it\n", name, t)
			}
			if len(e.Gone) > 0 {
				const text = "%s: warning: tree %s: %d large bodies are no longer stored\n"
				fmt.Fprintf(stderr, text, name, t, len(e.Gone))
			}
		}
		return nil
	})
}

// importing holds the flags of axe import.
type importing struct{ session cli.SessionFlags }

func importCommand() *cobra.Command {
	i := &importing{session: cli.SessionFlags{Name: name}}
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Store the trees of an export on a bus", Args: cobra.ExactArgs(1),
		Long: `Store the trees of a file that axe export wrote. They can be looked at like any
other tree: show, log, wait, artifacts, verify. They keep their ids and times.
No worker goes on with them, and --keep counts from the import on.

Nothing is stored if the file is not whole, or if one of its trees is there, or
was exported at work. The prefix and the partitions of the two buses may differ.
An import that was cut off is completed when the command is repeated, and
axe forget removes what it has stored.

Workers of a version without axe import would carry out the messages: upgrade
all workers of the bus first.

Exit codes: 0 imported; 1 a tree is there, or the bus failed; 2 usage, or a file
that is no whole export.`,
		Example: `  axe import trees.jsonl
  axe import trees.jsonl --context archive && axe verify --all --context archive`,
		RunE: i.run,
	}
	i.session.Register(cmd)
	return cmd
}

func (i *importing) run(cmd *cobra.Command, args []string) error {
	ctx, file := cmd.Context(), args[0]
	f, err := os.Open(file)
	if err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	defer f.Close()
	return i.session.Use(ctx, func(ses *cli.Session) error {
		err := client.Import(ctx, ses.Client, f, func(t subjects.Tree) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: tree %s is imported\n", name, t)
		})
		if errors.Is(err, archive.ErrMalformed) || errors.Is(err, client.ErrNotEnded) {
			return cli.Fail(cli.CodeConfig, fmt.Errorf("%s: %w", file, err))
		}
		return err
	})
}
