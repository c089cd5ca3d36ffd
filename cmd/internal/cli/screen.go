package cli

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
)

// Screen is stderr with a tree that is drawn in place. Write prints lines above
// the tree. A Screen is safe for concurrent use. It holds its lock while it
// writes, as a log handler does.
type Screen struct {
	w        io.Writer
	size     func() (width, height int)
	terminal bool

	mu     sync.Mutex
	silent bool
	// held says that Write keeps its text for Release, in kept.
	held bool
	kept []string
	// tree is nil before the first event and after Finish.
	tree *Tree
	// tick is the position of the spinner.
	tick int
	// paused says that no tree is drawn.
	paused bool
	// drawn is the number of lines that the tree takes on the terminal.
	drawn int
}

// Stderr returns a screen on the stderr of the process.
func Stderr() *Screen {
	fd := int(os.Stderr.Fd())
	return &Screen{w: os.Stderr, terminal: Terminal(os.Stderr), size: func() (int, int) {
		width, height, err := term.GetSize(fd)
		if err != nil || width < 1 || height < 1 {
			return 80, 24
		}
		return width, height
	}}
}

// Terminal reports whether stderr is a terminal.
func (s *Screen) Terminal() bool { return s.terminal }

// Write prints lines above the tree.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.silent:
		return len(p), nil
	case s.held:
		s.kept = append(s.kept, string(p))
		s.kept = s.kept[max(0, len(s.kept)-maxKept):]
		return len(p), nil
	}
	if s.drawn == 0 {
		return s.w.Write(p)
	}
	return len(p), s.repaint(string(p))
}

// maxKept is the number of texts that a screen keeps while it is held.
const maxKept = 100

// Hold makes Write keep its last texts until Release, if stderr is a terminal:
// another view takes the whole screen.
func (s *Screen) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = s.terminal
}

// Release prints the texts that Write has kept since Hold.
func (s *Screen) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.kept {
		_, _ = io.WriteString(s.w, text) // best effort
	}
	s.held, s.kept = false, nil
}

// Silence makes Write drop all later text, such as the log messages of a
// shutdown.
func (s *Screen) Silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// Apply adds an event to the tree. The next Draw shows it.
func (s *Screen) Apply(e client.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tree == nil {
		s.tree = &Tree{}
	}
	s.tree.Apply(e)
}

// Draw draws the tree as it is now.
func (s *Screen) Draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tree != nil && !s.paused {
		s.tick++
		_ = s.repaint("")
	}
}

// Pause takes the drawn tree from the terminal, until Resume. A person may type
// then.
func (s *Screen) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
	if s.drawn > 0 {
		var b strings.Builder
		moveUp(&b, s.drawn)
		eraseRows(&b, s.drawn)
		s.drawn = 0
		_, _ = io.WriteString(s.w, b.String()) // best effort
	}
}

// Resume lets the tree be drawn again, below the text that was printed since
// Pause.
func (s *Screen) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
}

// Finish draws the tree for the last time. Later writes come below it.
func (s *Screen) Finish() {
	s.Draw()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.drawn = nil, 0
}

// The control sequences of a frame. No sequence clears the screen: a terminal
// may keep each screen that was cleared in its scrollback, as tmux does.
const (
	eraseLine = "\x1b[2K"
	// noWrap cuts lines that are too long, until wrap.
	noWrap = "\x1b[?7l"
	wrap   = "\x1b[?7h"
)

// repaint prints a text in the place of the drawn tree, and draws the tree as
// it is now below that text. The tree leaves the last row of the terminal to
// the cursor, so that the next frame does not scroll.
func (s *Screen) repaint(above string) error {
	width, height := s.size()
	f := Frame{Now: time.Now(), Tick: s.tick, Width: width, Height: max(1, height-1), Colour: colour()}
	lines := s.tree.Lines(f)
	var b strings.Builder
	old := min(s.drawn, f.Height)
	moveUp(&b, old)
	if above != "" {
		eraseRows(&b, old)
		b.WriteString(strings.TrimSuffix(above, "\n") + "\n")
		old = 0
	}
	b.WriteString(noWrap)
	for _, line := range lines {
		b.WriteString(eraseLine + line + "\n")
	}
	b.WriteString(wrap)
	eraseRows(&b, old-len(lines))
	s.drawn = len(lines)
	_, err := io.WriteString(s.w, b.String())
	return err
}

// eraseRows erases n rows from the cursor's row on. The cursor ends at the
// start of its row.
func eraseRows(b *strings.Builder, n int) {
	if n > 0 {
		b.WriteString(strings.Repeat(eraseLine+"\n", n))
		moveUp(b, n)
	}
}

// moveUp moves the cursor to the start of the row that is n rows above.
func moveUp(b *strings.Builder, n int) {
	if n > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(n) + "A\r")
	}
}

// redraw draws the tree every redrawInterval until ctx ends.
func (s *Screen) redraw(ctx context.Context) {
	for pause.For(ctx, redrawInterval) == nil {
		s.Draw()
	}
}
