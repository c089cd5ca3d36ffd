package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
)

// SessionFlags are the flags of commands that use a running bus and are no
// worker.
type SessionFlags struct {
	// Name is the name of the program in messages.
	Name string
	// Looks is set for a command that only looks: it waits less for a server
	// that is not there.
	Looks bool
	// HandsOn is set for a command that hands trees on to files or other
	// programs: it shortens only ids that axe has made, as commands do that
	// change something.
	HandsOn bool
	// Output is the format of the command's results.
	Output Output

	dial           DialFlags
	log            LogFlags
	progress       ProgressFlags
	connectTimeout Seconds
}

const (
	// ConnectTimeout is the default time to wait for a server.
	ConnectTimeout = 10 * time.Second
	// lookTimeout is the same for commands that only look.
	lookTimeout = 2 * time.Second
)

// Register adds the flags to a command and all below it.
func (f *SessionFlags) Register(cmd *cobra.Command) {
	f.Complete(cmd)
	f.dial.Register(cmd)
	f.log.Register(cmd, "warn")
	f.connectTimeout = Seconds(ConnectTimeout)
	if f.Looks {
		f.connectTimeout = Seconds(lookTimeout)
	}
	cmd.PersistentFlags().Var(&f.connectTimeout, "connect-timeout",
		"time to wait for a server that is not there: seconds, or a duration like 1m; 0 waits without a bound")
}

// RegisterProgress adds the flags for the view of a tree. Without them no tree
// is shown.
func (f *SessionFlags) RegisterProgress(cmd *cobra.Command) { f.progress.Register(cmd) }

// MaxBody returns the bound of a body in bytes, 0 if the flag is not set.
func (f *SessionFlags) MaxBody() int64 { return f.dial.MaxBody() }

// Connects reports whether the command line has a connection flag. It is for
// commands that use a bus only if they are told to.
func (f *SessionFlags) Connects() bool { return f.dial.CheckUnused() != nil }

// Logger makes the logger of a command that shows no tree.
func (f *SessionFlags) Logger() (*slog.Logger, error) {
	screen := Stderr()
	return f.log.Logger(screen, screen.Terminal())
}

// Session is an open connection with a view of its trees.
type Session struct {
	*client.Client
	Conn *bus.Conn
	View *View
	// made says that the command shortens only ids that axe has made.
	made bool
}

// Use calls fn with a session on a bus that has its streams. The session ends
// with fn.
func (f *SessionFlags) Use(ctx context.Context, fn func(*Session) error) error {
	screen := Stderr()
	view, err := f.progress.View(screen, f.Name)
	if err != nil {
		return err
	}
	log, err := f.log.Logger(screen, screen.Terminal())
	if err != nil {
		return err
	}
	return f.UseConn(ctx, log, func(conn *bus.Conn) error {
		if err := Ready(ctx, conn); err != nil {
			return err
		}
		return fn(&Session{client.New(conn), conn, view, !f.Looks || f.HandsOn})
	})
}

// UseConn calls fn with a connection to a bus that may have no streams. The
// connection ends with fn.
func (f *SessionFlags) UseConn(ctx context.Context, log *slog.Logger, fn func(*bus.Conn) error) error {
	if f.connectTimeout < 0 {
		return Usage("--connect-timeout must not be negative, got %s", &f.connectTimeout)
	}
	cfg, err := f.dial.Config(nil, log)
	if err != nil {
		return err
	}
	conn, err := Open(ctx, cfg, time.Duration(f.connectTimeout))
	if err != nil {
		return err
	}
	defer conn.Close()
	return fn(conn)
}

// UseRun is Use for a command about the run that args name.
func (f *SessionFlags) UseRun(ctx context.Context, args []string, fn func(*Session, Target) error) error {
	t, err := ParseTarget(args...)
	if err != nil {
		return err
	}
	return f.UseTarget(ctx, t, fn)
}

// UseTarget is Use for a command about a run. The id of its tree may be
// shortened. The error of an unknown tree has the key of t.
func (f *SessionFlags) UseTarget(ctx context.Context, t Target, fn func(*Session, Target) error) error {
	return f.Use(ctx, func(ses *Session) error {
		named, err := ses.resolve(ctx, t)
		if err != nil {
			return err
		}
		return t.withKey(fn(ses, named))
	})
}

// UseTurn is UseRun for a command about a turn of a run. The id may end with @
// and the number of the turn, 0 without one. A key of --id may look like that,
// too: it names its tree, unless it may also name a turn of a tree, that of the
// part before the @. That is an error.
func (f *SessionFlags) UseTurn(
	ctx context.Context, args []string, fn func(ses *Session, t Target, turn int) error,
) error {
	whole, err := ParseTarget(args...)
	if err != nil {
		return err
	}
	id, at, turn := cutTurn(whole.key)
	if id == whole.key {
		return f.UseTarget(ctx, whole, func(ses *Session, t Target) error { return fn(ses, t, 0) })
	}
	before := Target{client.TreeID(id), whole.Path, id}
	return f.Use(ctx, func(ses *Session) error {
		isKey, err := client.Knows(ctx, ses.Client, whole.Tree)
		if err != nil {
			return err
		}
		switch {
		case turn == 0 && isKey:
			return fn(ses, whole, 0)
		case turn == 0:
			return Usage("turn must be a number from 1 on, as in ID@2, got %q", at)
		}
		named, err := ses.resolve(ctx, before)
		if err != nil {
			return err
		}
		if !isKey {
			return before.withKey(fn(ses, named, turn))
		}
		both, err := client.Knows(ctx, ses.Client, named.Tree)
		switch {
		case err != nil:
			return err
		case both:
			return Usage("%q is the key of tree %s, and may also be turn %d of tree %s: give an id",
				whole.key, whole.Tree, turn, named.Tree)
		}
		return fn(ses, whole, 0)
	})
}

// Target reads a tree's id, which may be shortened.
func (s *Session) Target(ctx context.Context, id string) (Target, error) {
	t, err := ParseTarget(id)
	if err != nil {
		return t, err
	}
	return s.resolve(ctx, t)
}

// resolve completes a shortened id.
func (s *Session) resolve(ctx context.Context, t Target) (Target, error) {
	if t.key == "" || t.Tree.String() != t.key {
		return t, nil // all trees, or a key that is no id
	}
	tree, err := s.Resolve(ctx, t.Tree, s.made)
	t.Tree = tree
	if _, ambiguous := errors.AsType[*client.AmbiguousError](err); ambiguous {
		return t, Usage("%w", err)
	}
	return t, err
}

// Prefix is the first token of all subjects, "" for the default.
func (f *SessionFlags) Prefix() string { return f.dial.Prefix() }
