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

	mu    sync.Mutex
	muted bool
	// tree is nil if no tree is drawn.
	tree *Tree
	// tick is the position of the spinner.
	tick int
	// drawn is the number of lines that the tree takes on the terminal.
	drawn int
}

// Stderr returns the screen of the process.
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

// Terminal reports whether the screen is a terminal.
func (s *Screen) Terminal() bool { return s.terminal }

// Write prints above the tree.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		return len(p), nil
	}
	if s.drawn == 0 {
		return s.w.Write(p)
	}
	return len(p), s.repaint(string(p))
}

// Mute drops all later writes: the log messages of a shutdown.
func (s *Screen) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
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
	if s.tree != nil {
		s.tick++
		_ = s.repaint("")
	}
}

// Finish draws the tree for the last time. Later writes come below it.
func (s *Screen) Finish() {
	s.Draw()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.drawn = nil, 0
}

// repaint erases the drawn tree, prints a text in its place, and draws the tree
// as it is now below that text.
func (s *Screen) repaint(above string) error {
	width, height := s.size()
	f := Frame{Now: time.Now(), Tick: s.tick, Width: width, Height: max(1, height-1), Colour: colour()}
	lines := s.tree.Lines(f)
	erase := ""
	if s.drawn > 0 {
		erase = "\x1b[" + strconv.Itoa(s.drawn) + "A\r\x1b[J"
	}
	s.drawn = len(lines)
	_, err := io.WriteString(s.w, erase+above+strings.Join(lines, "\n")+"\n")
	return err
}

// redraw draws the tree until ctx ends.
func (s *Screen) redraw(ctx context.Context) {
	for pause.For(ctx, redrawInterval) == nil {
		s.Draw()
	}
}
