package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Keys of log attributes.
const (
	keyError = "error"
	keyDir   = "dir"
	keyFile  = "file"
	keyKept  = "last_good_kept"
	keyAgent = "agent"
	keyKey   = "key"

	keyProblem = "problem"
)

// LogFlags are the flags for the log on stderr.
type LogFlags struct{ level, format string }

// Register adds the flags to a command and all below it. Level is the default
// of --log-level.
func (l *LogFlags) Register(cmd *cobra.Command, level string) {
	cmd.PersistentFlags().StringVar(&l.level, "log-level", level, "lowest level: debug, info, warn, error or off")
	cmd.PersistentFlags().StringVar(&l.format, "log-format", "text", "text or json")
}

// Logger makes the logger. A terminal gets colours, unless NO_COLOR is set or
// TERM is dumb.
func (l *LogFlags) Logger(w io.Writer, terminal bool) (*slog.Logger, error) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, ok := levels[l.level]
	switch {
	case l.level == "off":
		return slog.New(slog.DiscardHandler), nil
	case !ok:
		return nil, Usage("--log-level must be debug, info, warn, error or off, got %q", l.level)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch {
	case l.format == "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	case l.format != "text":
		return nil, Usage("--log-format must be text or json, got %q", l.format)
	case terminal && colour():
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000"})), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}

// Terminal reports whether f is a terminal.
func Terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Colour reports whether text on f may have colours.
func Colour(f *os.File) bool { return Terminal(f) && colour() }

func colour() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }
