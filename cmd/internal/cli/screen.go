package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/axebus/axe/client"
)

// Screen is stderr: log lines above, and below them a tree that is drawn in
// place. What is written to it goes above the tree. It is safe for concurrent
// use; its lock is held while it writes, as a log handler's is.
type Screen struct {
	w        io.Writer
	size     func() (width, height int)
	terminal bool

	mu    sync.Mutex
	muted bool
	tree  *Tree // nil: nothing is drawn
	tick  int
	drawn int // lines on the terminal
}

// Stderr is the process's.
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

// Terminal reports whether stderr is one.
func (s *Screen) Terminal() bool { return s.terminal }

// Write writes above the tree.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		return len(p), nil
	}
	if s.drawn == 0 {
		return s.w.Write(p)
	}
	lines := s.lines()
	_, err := io.WriteString(s.w, s.erase()+string(p)+s.put(lines))
	return len(p), err
}

// Mute drops what is written from now on: the complaints of what is being
// closed.
func (s *Screen) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
}

// Apply folds an event into the tree; it is seen at the next Draw.
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
	if s.tree == nil {
		return
	}
	s.tick++
	lines := s.lines()
	_, _ = io.WriteString(s.w, s.erase()+s.put(lines))
}

// Leave draws the tree for the last time; what is written from now on comes
// below it.
func (s *Screen) Leave() {
	s.Draw()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.drawn = nil, 0
}

func (s *Screen) lines() []string {
	width, height := s.size()
	return s.tree.Lines(
		Frame{Now: time.Now(), Tick: s.tick, Width: width, Height: max(1, height-1), Colour: colour()},
	)
}

// erase goes back to the first line of the tree and clears from there.
func (s *Screen) erase() string {
	if s.drawn == 0 {
		return ""
	}
	return "\x1b[" + strconv.Itoa(s.drawn) + "A\r\x1b[J"
}

func (s *Screen) put(lines []string) string {
	s.drawn = len(lines)
	return strings.Join(lines, "\n") + "\n"
}
