package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// silenceLimit is the time without input after which readStdin reacts.
const silenceLimit = 3 * time.Second

// readStdin reads until the end of standard input or of ctx. It waits for
// another command of the same pipeline until that ends, as any filter does.
// After silenceLimit without input it prints a notice and goes on. If the input
// is optional, it returns "" then for a pipe or socket that only the ancestors
// of this process hold open. Programs that start a child with an open, unused
// standard input are common (Node's child_process does so by default). Nothing
// can end a read from a silent pipe, so the reading goroutine is left to end
// with the process.
func (in input) readStdin(ctx context.Context, optional bool) (string, error) {
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
			rest, err = io.ReadAll(io.LimitReader(os.Stdin, in.max()))
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
			if optional && !hasWriter(os.Stdin) {
				const notice = "%s: standard input is silent, going on without it (-f - waits for it)\n"
				fmt.Fprintf(os.Stderr, notice, in.program)
				return "", nil
			}
			fmt.Fprintf(os.Stderr, "%s: reading %s from standard input\n", in.program, in.what)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
