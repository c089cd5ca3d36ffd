package top

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/subjects"
)

// Config has the settings of a screen.
type Config struct {
	Session *cli.Session
	// Interval is the time between two looks at the bus.
	Interval time.Duration
	// Patience is the time without a message of the server after which the
	// first look fails. 0: cli.ConnectTimeout.
	Patience time.Duration
	// By is the name of the person in approvals and denials.
	By string
	// Prices are those of models. Without any no cost is shown.
	Prices price.Table
	Colour bool
}

// Run shows the screen until the person leaves it, or ctx ends. It returns the
// error of the first look: later ones are shown.
func Run(ctx context.Context, cfg Config) error {
	m := newModel(ctx, cfg)
	var err error
	if m.look, err = m.first(ctx); err != nil {
		return err
	}
	// The log would be written over the lists.
	log := cfg.Session.View.Screen()
	log.Hold()
	defer log.Release()
	_, err = tea.NewProgram(m, tea.WithAltScreen(), tea.WithContext(ctx)).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// first makes the first look. It fails when the server has sent nothing for the
// patience of the configuration. A look may take longer than that.
func (m model) first(ctx context.Context) (look, error) {
	limited, stop := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop(nil)
	watch.Go(func() { stop(m.awaitSilence(limited)) })
	l, err := m.reader.read(limited, subjects.Tree{})
	if cause := context.Cause(limited); err != nil && cause != nil {
		err = cause
	}
	return l, err
}

// awaitSilence waits until the server has sent nothing for the patience of the
// configuration, and returns the error about it. It returns the cause of the
// end of ctx if ctx ends first.
func (m model) awaitSilence(ctx context.Context) error {
	patience := cmp.Or(m.cfg.Patience, cli.ConnectTimeout)
	since, received := time.Now(), m.cfg.Session.Conn.Stats().Received
	for {
		if err := pause.For(ctx, patience/10); err != nil {
			return err
		}
		if n := m.cfg.Session.Conn.Stats().Received; n != received {
			since, received = time.Now(), n
		}
		if none := time.Since(since); none >= patience {
			return errors.New(noAnswer + presence.Age(none))
		}
	}
}

// Print prints one look, for a standard output that is no terminal.
func Print(ctx context.Context, w io.Writer, cfg Config) error {
	m := newModel(ctx, cfg)
	var err error
	if m.look, err = m.first(ctx); err != nil {
		return err
	}
	m.width, m.height = printWidth, 0
	for _, line := range m.list() {
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// printWidth is the width of a print, in columns.
const printWidth = 160
