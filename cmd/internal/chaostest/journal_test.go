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

// tail is the number of last lines that a journal keeps. They are printed when
// a scenario fails.
const tail = 400

// journal keeps the last lines of output of all processes. If it has a file, it
// writes all lines to the file.
type journal struct {
	start time.Time
	mu    sync.Mutex
	lines []string
	next  int       // lines so far
	file  io.Writer // nil for none
	// keep is a text, "" for none. kept holds all lines with that text, of
	// any number.
	keep string
	kept []string
	// traces takes the lines of schedulers; nil: they are lines as others.
	traces *schedulerTraces
}

// newJournal makes a journal. If AXE_CHAOS_LOGS names a directory, the journal
// has a file there.
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

// said returns the output of one process among the last lines.
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

// line adds a line of output of a process.
func (j *journal) line(process, text string) {
	if j.traces != nil && j.traces.take(process, text) {
		return
	}
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

// saidSo reports whether a line of a process in kept has a text. An empty name
// stands for any process.
func (j *journal) saidSo(process, text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.kept, func(line string) bool {
		return (process == "" || strings.Contains(line, " "+process+" ")) && strings.Contains(line, text)
	})
}

// String returns the last lines, oldest first.
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
