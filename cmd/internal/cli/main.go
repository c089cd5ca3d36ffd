package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs a command and returns the exit code. The command's context ends at
// the first SIGINT or SIGTERM, with an SignalError as its cause; the second one
// ends the process at once.
func Main(cmd *cobra.Command) int {
	ctx, stop := signals(context.Background())
	defer stop()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Version = Version()
	began := false
	note(cmd, &began)
	at, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return CodeOK
	}
	if errors.Is(err, context.Canceled) {
		err = because(ctx, err)
	}
	line := cmd.Name() + ": " + oneLine(err.Error())
	if _, usage := errors.AsType[*usageError](err); usage || !began {
		err = &usageError{err}
		line += " (see " + at.CommandPath() + " --help)"
	}
	fmt.Fprintln(os.Stderr, line)
	return Code(err)
}

// note has began set when a command's own work begins. What fails before is the
// command line's fault.
func note(cmd *cobra.Command, began *bool) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return work(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		note(sub, began)
	}
}

// signals returns a context that ends at the first signal. A signal that the
// process was started to ignore, as shells do for what runs in the background,
// stays ignored.
func signals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got, done := make(chan os.Signal, 2), make(chan struct{})
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	go func() { // ends with stop
		for {
			select {
			case <-done:
				return
			case s := <-got:
				number, _ := s.(syscall.Signal)
				if ctx.Err() != nil {
					os.Exit(128 + int(number))
				}
				cancel(SignalError{number})
			}
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(done)
		cancel(nil)
	}
}

// because is why something failed that ctx had ended: libraries tell that it
// has, and not why.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// Version is the module's version, as far as the build knows it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
