package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd"
)

// Main runs a command and returns the exit code. The first SIGINT or SIGTERM
// ends the command's context, with a SignalError as its cause. The second
// signal ends the process at once.
func Main(cmd *cobra.Command) int {
	agentd.MaybeExec()
	ctx, stop := signals(context.Background())
	defer stop()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Version = ReadBuild(cmd.Name()).String()
	// The tables of flags fit a terminal of 80 columns.
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 80 "))
	// Before the work of a command an error is one of the command line.
	began := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	at, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return CodeOK
	}
	if errors.Is(err, context.Canceled) {
		err = withCause(ctx, err)
	}
	line := cmd.Name() + ": " + oneLine(err.Error())
	if step := advice(err); step != "" {
		line += "; " + step
	}
	if _, usage := errors.AsType[*usageError](err); usage || !began {
		err = &usageError{err}
		line += " (see " + at.CommandPath() + " --help)"
	}
	fmt.Fprintln(os.Stderr, line)
	if failed, ok := errors.AsType[*outcomeError](err); ok && failed.hint != "" {
		fmt.Fprintln(os.Stderr, cmd.Name()+": hint: "+failed.hint)
	}
	return Code(err)
}

// Subcommands accepts no arguments: a command of subcommands has none of its
// own. The error for a mistyped subcommand suggests the right one.
func Subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// A command that differs in every letter is not near.
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])-1)
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	// Every name begins with an empty text.
	if near := cmd.SuggestionsFor(args[0]); args[0] != "" && len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return Usage("%s", text)
}

// signals returns a context that ends at the first signal. A signal that is
// ignored at the start stays ignored, since shells start background jobs so.
func signals(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	got, done := make(chan os.Signal, 2), make(chan struct{})
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	go func() { // the returned function ends it
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

// withCause returns the cause of ctx in place of err, if ctx has ended.
// Libraries report that a context has ended, without its cause.
func withCause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
