package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// silenceLimit is the time without input after which readStdin checks whether
// any process can still write to it.
const silenceLimit = 3 * time.Second

// errSilent is the error of a standard input that is empty and that no process
// will write to.
var errSilent = errors.New("nothing came on standard input")

// pipedIn reads a piped standard input, and returns "" without input. It waits
// for another command of the same pipeline until that ends or ctx ends, as any
// filter does. It does not wait for a pipe or socket that only the ancestors of
// this process hold open. Programs that start a child with an open, unused
// standard input are common (Node's child_process does so by default).
func pipedIn(ctx context.Context, name, what string, limit int64) (string, error) {
	text, err := readStdin(ctx, name, what, limit, func() bool { return !hasWriter(os.Stdin) })
	if errors.Is(err, errSilent) {
		fmt.Fprintf(os.Stderr, "%s: standard input is silent, going on without it (-f - waits for it)\n", name)
		return "", nil
	}
	return text, err
}

// readStdin reads until the end of standard input or of ctx. After silenceLimit
// without input it returns errSilent if unused reports true. Otherwise it
// prints a notice and goes on. Nothing can end a read from a silent pipe, so
// the reading goroutine is left to end with the process.
func readStdin(ctx context.Context, name, what string, limit int64, unused func() bool) (string, error) {
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
	quiet := time.NewTimer(silenceLimit)
	defer quiet.Stop()
	for {
		select {
		case r := <-got:
			return r.text, r.err
		case <-begun:
			begun = nil
			quiet.Stop()
		case <-quiet.C:
			if unused() {
				return "", errSilent
			}
			fmt.Fprintf(os.Stderr, "%s: reading %s from standard input\n", name, what)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
