package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/subjects"
)

// Config has the settings of a screen.
type Config struct {
	Session *cli.Session
	// Interval is the time between two looks at the bus.
	Interval time.Duration
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
	first, err := m.reader.read(ctx, subjects.Tree{})
	if err != nil {
		return err
	}
	m.look = first
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

// Print prints one look, for a standard output that is no terminal.
func Print(ctx context.Context, w io.Writer, cfg Config) error {
	m := newModel(ctx, cfg)
	var err error
	if m.look, err = m.reader.read(ctx, subjects.Tree{}); err != nil {
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
