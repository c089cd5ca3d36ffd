package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/axebus/axe/bus"
)

// TaskText returns the text of a task: the argument, the file, or else the
// piped standard input. "-" names the standard input in both places. A terminal
// is read only for "-". limit bounds the text in bytes; 0 is
// bus.DefaultMaxBody.
func TaskText(ctx context.Context, name string, arg *string, file string, limit int64) (string, error) {
	return input{name, "the task", limit}.read(ctx, arg, file)
}

// MessageText returns the text of a message: arg, or the standard input if arg
// is "-".
func MessageText(ctx context.Context, name, arg string, limit int64) (string, error) {
	return input{name, "the message", limit}.read(ctx, &arg, "")
}

// input is a text that a command reads.
type input struct {
	program string
	what    string // the text's name in messages
	limit   int64  // bytes; 0 is bus.DefaultMaxBody
}

func (in input) read(ctx context.Context, arg *string, file string) (string, error) {
	in.limit = cmp.Or(in.limit, bus.DefaultMaxBody)
	unnamed := arg == nil && file == ""
	var text string
	var err error
	switch {
	case arg != nil && file != "":
		return "", Usage("give the task as an argument or with --file, not both")
	case !FromStdin(arg, file) && arg != nil:
		text = *arg
	case !FromStdin(arg, file):
		text, err = readFile(file, in.limit)
	case unnamed && Terminal(os.Stdin):
		return "", nil
	default:
		text, err = in.readStdin(ctx, unnamed)
	}
	switch {
	case err != nil:
		return "", err
	case int64(len(text)) > in.limit:
		return "", fmt.Errorf("%w: %s has more than %d bytes", bus.ErrTooLarge, in.what, in.limit)
	case !utf8.ValidString(text):
		return "", Usage("%s is not UTF-8 text", in.what)
	}
	return text, nil
}

// FromStdin reports whether a text is read from standard input.
func FromStdin(arg *string, file string) bool {
	return (arg == nil || *arg == "-") && (file == "" || file == "-")
}

func readFile(file string, limit int64) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", Fail(CodeConfig, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", Fail(CodeConfig, err)
	}
	return string(b), nil
}
