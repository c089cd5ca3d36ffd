package chaostest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tail is the number of lines that are printed when a scenario fails.
const tail = 400

// journal keeps the last lines of output of all processes, and all lines if
// there is a file.
type journal struct {
	start time.Time
	mu    sync.Mutex
	lines []string
	next  int
	file  io.Writer
	// keep is a text, "" for none. kept has every line with it, which tail
	// does not bound.
	keep string
	kept []string
}

func newJournal(t *testing.T) *journal {
	t.Helper()
	j := &journal{start: time.Now(), lines: make([]string, tail)}
	if dir := os.Getenv("AXE_CHAOS_LOGS"); dir != "" {
		f, err := os.Create(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".log"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		j.file = f
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of all processes:\n%s", j)
		}
	})
	return j
}

// said is the kept output of one process.
func (j *journal) said(process string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for i := range j.lines {
		if line := j.lines[(j.next+i)%len(j.lines)]; strings.Contains(line, " "+process+" ") {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// log records an action of the test itself.
func (j *journal) log(format string, args ...any) { j.line("chaos", fmt.Sprintf(format, args...)) }

func (j *journal) line(process, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%8.3f %-10s %s", time.Since(j.start).Seconds(), process, text)
	j.lines[j.next%len(j.lines)] = line
	j.next++
	if j.keep != "" && strings.Contains(text, j.keep) {
		j.kept = append(j.kept, line)
	}
	if j.file != nil {
		_, _ = fmt.Fprintln(j.file, line)
	}
}

// saidSo reports whether a process has said a text in a line of kept. An empty
// name is any process.
func (j *journal) saidSo(process, text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.kept, func(line string) bool {
		return (process == "" || strings.Contains(line, " "+process+" ")) && strings.Contains(line, text)
	})
}

// String is the kept output, oldest line first.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for i := max(0, j.next-len(j.lines)); i < j.next; i++ {
		fmt.Fprintln(&b, j.lines[i%len(j.lines)])
	}
	return b.String()
}

// of returns the writer for the output of a process. first is called at its
// first line.
func (j *journal) of(process string, first func()) io.Writer {
	return &lineWriter{journal: j, process: process, first: first}
}

// lineWriter splits the output of a process into lines.
type lineWriter struct {
	journal *journal
	process string
	first   func()
	once    sync.Once
	rest    []byte // an unfinished line
}

// Write implements io.Writer.
func (s *lineWriter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		s.once.Do(s.first)
		s.journal.line(s.process, string(line))
		s.rest = rest
	}
}
