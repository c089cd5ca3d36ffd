package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	artifactsLong = `List the artifacts of a tree, the oldest first: results of tools that were too
large for a model, and files that agents have written with write_artifact. RUN
is the path of the tool run that made the artifact. The tree may be at work.
"axe artifact get" reads one. They are stored as long as the tree.

-o json prints an object a line: name, type, size, sha256, path and stored.`

	artifactsExamples = `  axe artifacts order4711
  axe artifacts order4711 -o json | jq -r .name`

	getLong = `Write the bytes of an artifact to the standard output, or with -o to a file. The
file is replaced when all bytes are there. Bytes that may control a terminal are
not written to one.

Exit codes: 0 written, 1 the bus or the file failed, 2 usage, an unknown tree or
no artifact of that name.`

	getExamples = `  axe artifact get order4711 report.md
  axe artifact get order4711 r-1-0.txt -o build.log`
)

func artifactsCommand() *cobra.Command {
	return listCommand(&cobra.Command{
		Use: "artifacts ID", Short: "List the artifacts of a tree", Long: artifactsLong, Example: artifactsExamples,
		Args: cobra.ExactArgs(1),
	}, printArtifacts)
}

func printArtifacts(ctx context.Context, ses *cli.Session, t cli.Target, stdout io.Writer, format cli.Output) error {
	all, err := ses.Artifacts(ctx, t.Tree)
	if err != nil {
		return err
	}
	return list[client.Artifact]{"NAME\tSIZE\tTYPE\tRUN\tSTORED", func(a client.Artifact) string {
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s", cli.Printable(a.Name), a.Size, dash(cli.Printable(a.MediaType)),
			a.Path, a.Stored.Local().Format(time.DateTime))
	}}.print(stdout, format, all)
}

func artifactCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "artifact", Short: "Read an artifact of a tree",
		Long: `An artifact is a file of a tree: a large result of a tool, or a text that an
agent has written. "axe artifacts" lists them.`,
	}, busCommand(getCommand))
}

func getCommand(f *cli.SessionFlags) *cobra.Command {
	f.Looks = true
	file := "-"
	cmd := &cobra.Command{
		Use: "get ID NAME", Short: "Write the bytes of an artifact to the standard output or a file", Long: getLong,
		Example: getExamples, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return cli.Usage("--output must not be empty: name a file, or - for the standard output")
			}
			return f.UseRun(cmd.Context(), args[:1], func(ses *cli.Session, t cli.Target) error {
				return get(cmd.Context(), ses, t, artifactOutput{args[1], file, cmd.OutOrStdout()})
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", file, "file to write; - for the standard output")
	return cmd
}

// artifactOutput says where the bytes of an artifact go.
type artifactOutput struct {
	name, file string
	stdout     io.Writer
}

func get(ctx context.Context, ses *cli.Session, t cli.Target, to artifactOutput) error {
	fill := func(w io.Writer) error { return ses.CopyArtifact(ctx, w, t.Tree, to.name) }
	if to.file != "-" {
		return cli.WriteFile(to.file, fill)
	}
	if f, ok := to.stdout.(*os.File); ok && cli.Terminal(f) {
		to.stdout = plainText{f}
	}
	err := fill(to.stdout)
	if errors.Is(err, errControl) {
		const text = "artifact %q is binary, or would control the terminal: write it to a file with -o FILE"
		return cli.Usage(text, to.name)
	}
	return err
}

var errControl = errors.New("the bytes would control a terminal")

// plainText refuses bytes that control a terminal, binary data among them.
type plainText struct{ w io.Writer }

// Write implements io.Writer.
func (p plainText) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 {
			return 0, errControl
		}
		rest = rest[n:]
	}
	return p.w.Write(b)
}
