package mcpclient

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestEnvironment: a program gets four common variables of the worker, and
// those that its definition names. It runs in the workdir.
func TestEnvironment(t *testing.T) {
	t.Setenv("LANG", "C")
	t.Setenv("WORKER_SECRET", "key")
	t.Setenv("NATS_URL", "nats://here")
	t.Setenv("TOOL_TOKEN", "token")
	def := program(t, "tools")
	def.Env = []string{"TOOL_TOKEN", "NOT_SET"}
	def.Workdir = t.TempDir()
	got := strings.Split(callText(t, open(t, def), "env", `{}`), "\n")
	for _, want := range []string{"TOOL_TOKEN=token", "LANG=C", "dir=" + def.Workdir} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	for _, line := range got {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "TERM", "TOOL_TOKEN", "PWD", "dir"}, name) {
			t.Errorf("the program has the variable %s, want it without", line)
		}
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux alone has it
	if err == nil && bytes.Contains(stat, []byte(") Z ")) {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

// TestCloseEndsGroup: Close ends a program that ignores the end of its input
// and SIGTERM, and its child too.
func TestCloseEndsGroup(t *testing.T) {
	def := program(t, "stubborn")
	s := open(t, def)
	s.newServer = func() server {
		p := newProcess(def, s.log)
		p.grace = 50 * time.Millisecond
		return p
	}
	pids := processes(t, s)
	s.Close()
	awaitEnd(t, pids)
}

// processes returns the ids of a stubborn server and of its child.
func processes(t *testing.T, s *Set) []int {
	t.Helper()
	pids := make([]int, 2)
	if _, err := fmt.Sscan(callText(t, s, "pids", `{}`), &pids[0], &pids[1]); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("process %d is not there", pid)
		}
	}
	return pids
}

// awaitEnd waits up to 10 seconds until processes have ended. Another process
// reaps the child of a dead program.
func awaitEnd(t *testing.T, pids []int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for slices.ContainsFunc(pids, alive) {
		if time.Now().After(deadline) {
			t.Fatal("the processes have not ended within 10 s")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestDeathEndsGroup: a program is killed. Its connection ends, and its child
// is ended too, though it ignores SIGTERM and has the program's output open.
func TestDeathEndsGroup(t *testing.T) {
	s := open(t, program(t, "stubborn"))
	pids := processes(t, s)
	c := s.current
	_ = c.server.(*process).cmd.Process.Kill()
	<-c.over
	awaitEnd(t, pids)
}

// TestGreeting: a line on a program's standard output that is no message is
// skipped.
func TestGreeting(t *testing.T) {
	if got := callText(t, open(t, program(t, "greeting")), "echo", `{}`); got != "{} tree.r-1-0" {
		t.Errorf("text %q, want {} tree.r-1-0", got)
	}
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// TestStandardError: the lines that a program writes to its standard error go
// to the log at the level debug. A long line is cut. The last lines are kept
// for errors.
func TestStandardError(t *testing.T) {
	out := &safeBuffer{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := &lineLog{log: log, ended: make(chan struct{})}
	l.readFrom(strings.NewReader("first\n\nsecond " + strings.Repeat("x", 1<<20) + "\nlast"))
	text := out.b.String()
	for _, want := range []string{"line=first", "second xxx", "line=last", "level=DEBUG"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the log: %.300s", want, text)
		}
	}
	if len(text) > 2*maxLogLine || len(l.last()) > 2*maxLogLine {
		t.Errorf("%d bytes in the log, %d kept; want at most %d of each", len(text), len(l.last()), 2*maxLogLine)
	}
	for range 100 {
		l.keep("again")
	}
	if got, want := l.last(), strings.TrimSuffix(strings.Repeat("again\n", keptLines), "\n"); got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
}
