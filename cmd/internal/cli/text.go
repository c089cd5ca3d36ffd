package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/axebus/axe/bus"
)

// TaskText is the text of a task: the argument if there is one, the file if one
// is named, and what is piped in otherwise. "-" is standard input in both
// places. A terminal is not read unless "-" says so, and nothing is read where
// the text was given.
func TaskText(ctx context.Context, name string, arg *string, file string, limit int64) (string, error) {
	return words(ctx, name, "the task", arg, file, limit)
}

// MessageText is the text of a message: standard input if that is "-".
func MessageText(ctx context.Context, name, arg string, limit int64) (string, error) {
	return words(ctx, name, "the message", &arg, "", limit)
}

func words(ctx context.Context, name, what string, arg *string, file string, limit int64) (string, error) {
	if limit == 0 {
		limit = bus.DefaultMaxBody
	}
	var text string
	var err error
	switch {
	case arg != nil && file != "":
		return "", Usage("a text and a file: want one of them")
	case !FromStdin(arg, file) && arg != nil:
		text = *arg
	case !FromStdin(arg, file):
		text, err = readFile(file, limit)
	case arg == nil && file == "" && Terminal(os.Stdin):
		return "", nil
	case arg == nil && file == "":
		text, err = pipedIn(ctx, name, what, limit)
	default:
		text, err = readStdin(ctx, name, what, limit, func() bool { return false })
	}
	switch {
	case err != nil:
		return "", err
	case int64(len(text)) > limit:
		return "", fmt.Errorf("%w: %s has more than %d bytes", bus.ErrTooLarge, what, limit)
	case !utf8.ValidString(text):
		return "", Usage("%s is not UTF-8 text", what)
	}
	return text, nil
}

// FromStdin reports whether the text is looked for on standard input.
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
