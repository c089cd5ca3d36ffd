package cli

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
)

// SessionFlags are the flags of commands that talk to a running bus and work
// for nobody.
type SessionFlags struct {
	// of the program, in what it says
	Name string
	// "text" or "json"; "" where there is nothing to choose
	Output string

	dial     DialFlags
	log      LogFlags
	progress ProgressFlags
	patience time.Duration
}

// Register adds the flags to a command and all below it.
func (f *SessionFlags) Register(cmd *cobra.Command) {
	f.dial.Register(cmd)
	f.log.Register(cmd, "warn")
	cmd.PersistentFlags().DurationVar(
		&f.patience,
		"connect-timeout",
		10*time.Second,
		"how long to wait for a server that is not there, 0: for ever",
	)
}

// RegisterProgress adds the flags of how a tree is shown. Without them it is
// not.
func (f *SessionFlags) RegisterProgress(cmd *cobra.Command) { f.progress.Register(cmd) }

// RegisterOutput adds the flag that says how results are printed.
func (f *SessionFlags) RegisterOutput(cmd *cobra.Command, help string) {
	cmd.PersistentFlags().StringVarP(&f.Output, "output", "o", "text", help)
}

// MaxBody is the largest body that the flags allow, 0 if they do not say.
func (f *SessionFlags) MaxBody() int64 { return f.dial.MaxBody() }

// Session is an open connection and how its trees are shown.
type Session struct {
	*client.Client
	Conn *bus.Conn
	View *View
	Log  *slog.Logger
}

// Open checks the flags and connects to a bus that has its streams. The caller
// closes the connection.
func (f *SessionFlags) Open(ctx context.Context) (*Session, error) {
	if err := CheckOutput(cmp.Or(f.Output, "text")); err != nil {
		return nil, err
	}
	if f.patience < 0 {
		return nil, Usage("--connect-timeout %s: want 0 or more", f.patience)
	}
	screen := Stderr()
	view, err := f.progress.View(screen, f.Name)
	if err != nil {
		return nil, err
	}
	log, err := f.log.Logger(screen, screen.Terminal())
	if err != nil {
		return nil, err
	}
	cfg, err := f.dial.Config(nil, log)
	if err != nil {
		return nil, err
	}
	conn, err := Open(ctx, cfg, f.patience)
	if err != nil {
		return nil, err
	}
	if err := Ready(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return &Session{client.New(conn), conn, view, log}, nil
}
