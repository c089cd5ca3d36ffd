package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
)

// TaskFlags are the places of a command line that a task's text comes from.
type TaskFlags struct {
	// Program is the name of the command in its notices.
	Program string
	// Text is the text on the command line, nil without one. "-" names the
	// standard input.
	Text *string
	// File is the name of a file with text, "" without one. "-" names the
	// standard input.
	File string
	// Limit bounds the text in bytes; 0 is bus.DefaultMaxBody.
	Limit int64
}

// AgentAndText accepts the arguments AGENT [TEXT].
func AgentAndText(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return Usage("give the name of an agent: %s", cmd.UseLine())
	case len(args) > 2:
		return Usage("%d words after the agent: quote the text, as in %s %s %q",
			len(args)-1, cmd.CommandPath(), args[0], strings.Join(args[1:], " "))
	}
	return nil
}

// TaskText is the text of a task.
type TaskText struct {
	// Text is all that the agent is sent.
	Text string
	// Stdin is the part that came from the standard input.
	Stdin string
}

// Read reads all places that the command line names, and standard input unless
// it is a terminal. The text of the command line comes first, then the file,
// then the standard input. The first has no fence, and each of the others
// follows in a fenced block. Text that is named and blank is refused.
func (f TaskFlags) Read(ctx context.Context) (TaskText, error) {
	in := input{f.Program, "the task", f.Limit}
	asText := f.Text != nil && *f.Text == "-"
	asFile := f.File == "-"
	if asText && asFile {
		return TaskText{}, Usage("standard input is the task or the --file, not both")
	}
	var t TaskText
	var err error
	var file string
	if f.File != "" && !asFile { // before the wait for standard input
		if file, err = readFile(ctx, f.File, in.max()); err != nil {
			return TaskText{}, err
		}
	}
	if asText || asFile || !Terminal(os.Stdin) {
		if t.Stdin, err = in.readStdin(ctx, !asText && !asFile); err != nil {
			return TaskText{}, err
		}
	}
	var parts []part
	if f.Text != nil && !asText {
		parts = append(parts, part{"", *f.Text})
	}
	if f.File != "" && !asFile {
		parts = append(parts, part{f.File, file})
	}
	if asText {
		parts = slices.Insert(parts, 0, part{"", t.Stdin})
	} else if asFile || strings.TrimSpace(t.Stdin) != "" {
		parts = append(parts, part{"Standard input", t.Stdin})
	}
	for _, p := range parts {
		if strings.TrimSpace(p.text) == "" {
			return TaskText{}, Usage(
				"%s is empty: to have an agent carry out its own instructions, leave the text out",
				cmp.Or(p.name, "the task"),
			)
		}
	}
	t.Text, err = in.check(join(parts))
	return t, err
}

// part is a part of a task's text.
type part struct {
	name string
	text string
}

// join returns a single part as it is. Of several parts, each loses the line
// breaks at its end, and each but the first is in a fenced block below its
// name. A fence is longer than any run of backticks in the text.
func join(parts []part) string {
	var blocks []string
	for i, p := range parts {
		text := p.text
		if len(parts) > 1 {
			text = strings.TrimRight(text, "\n")
		}
		if i > 0 {
			fence := strings.Repeat("`", max(3, longestRun(text, '`')+1))
			text = fmt.Sprintf("%s:\n\n%s\n%s\n%s", p.name, fence, text, fence)
		}
		blocks = append(blocks, text)
	}
	return strings.Join(blocks, "\n\n")
}

// longestRun is the length of the longest run of a byte in a text.
func longestRun(text string, of byte) (longest int) {
	run := 0
	for _, b := range []byte(text) {
		if run++; b != of {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// MessageText returns the text of a message: arg, or the standard input if arg
// is "-". limit bounds it in bytes; 0 is bus.DefaultMaxBody.
func MessageText(ctx context.Context, name, arg string, limit int64) (string, error) {
	in := input{name, "the message", limit}
	if arg != "-" {
		return in.check(arg)
	}
	text, err := in.readStdin(ctx, false)
	if err != nil {
		return "", err
	}
	return in.check(text)
}

// input is a text that a command reads.
type input struct {
	program string
	what    string // the text's name in messages
	limit   int64  // bytes; 0 is bus.DefaultMaxBody
}

func (in input) max() int64 { return cmp.Or(in.limit, bus.DefaultMaxBody) }

// check returns a text that can be sent.
func (in input) check(text string) (string, error) {
	switch {
	case int64(len(text)) > in.max():
		return "", fmt.Errorf("%w: %s has more than %d bytes", bus.ErrTooLarge, in.what, in.max())
	case !utf8.ValidString(text):
		return "", Usage("%s is not UTF-8 text", in.what)
	}
	return text, nil
}

// readFile reads a file, until ctx ends. The file may be a pipe without a
// writer, and nothing ends the wait for one: it is left to end with the process.
func readFile(ctx context.Context, file string, limit int64) (string, error) {
	type result struct {
		text []byte
		err  error
	}
	got := make(chan result, 1)
	go func() {
		var r result
		f, err := os.Open(file)
		if err == nil {
			defer f.Close()
			r.text, err = io.ReadAll(io.LimitReader(f, limit+1))
		}
		r.err = err
		got <- r
	}()
	select {
	case r := <-got:
		if r.err != nil {
			return "", Fail(CodeConfig, r.err)
		}
		return string(r.text), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
