package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// silence is how long a standard input without a word is waited for before it
// is looked into.
const silence = 3 * time.Second

// errSilent is the error of a standard input on which nothing came and nothing
// will.
var errSilent = errors.New("nothing came on standard input")

// pipedIn reads what is piped in, empty if nothing is. A command of the same
// pipeline is waited for until it ends or ctx does, as any filter would. A pipe
// or socket that only the processes above this one hold open may have been left
// so by whoever started it: when nothing has come after a moment, there is
// nothing.
func pipedIn(ctx context.Context, name, what string, limit int64) (string, error) {
	text, err := readStdin(ctx, name, what, limit, func() bool { return !fed(os.Stdin) })
	if errors.Is(err, errSilent) {
		fmt.Fprintf(os.Stderr, "%s: nothing came on standard input, going on without it (-f - waits for it)\n", name)
		return "", nil
	}
	return text, err
}

// readStdin reads until the end of standard input or of ctx. When nothing has
// come after a moment, the read is given up if forgotten says so, and the user
// is told otherwise. Nothing can end a read from a silent pipe, so the
// goroutine that does it is left behind with the process.
func readStdin(ctx context.Context, name, what string, limit int64, forgotten func() bool) (string, error) {
	type result struct {
		text string
		err  error
	}
	got, begun := make(chan result, 1), make(chan struct{})
	go func() {
		first := make([]byte, 1)
		n, err := io.ReadFull(os.Stdin, first)
		close(begun)
		var rest []byte
		switch {
		case err == nil:
			rest, err = io.ReadAll(io.LimitReader(os.Stdin, limit))
		case errors.Is(err, io.EOF):
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("standard input: %w", err)
		}
		got <- result{string(first[:n]) + string(rest), err}
	}()
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case r := <-got:
			return r.text, r.err
		case <-begun:
			begun = nil
			quiet.Stop()
		case <-quiet.C:
			if forgotten() {
				return "", errSilent
			}
			fmt.Fprintf(os.Stderr, "%s: reading %s from standard input\n", name, what)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
