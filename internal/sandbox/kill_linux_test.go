package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// marked counts the living processes with a mark in their command line. A mark
// is a number of seconds to sleep.
func marked(tb testing.TB, mark string) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline") // empty for a zombie
		if err == nil && strings.Contains(string(line), mark) {
			n++
		}
	}
	return n
}

// mark returns a number of seconds to sleep that no other test uses.
func mark(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("%d.%d", 3600+os.Getpid(), time.Now().UnixNano()%1e9)
}

// eventually waits until a condition holds, and returns the time that it took.
// It fails the test if the condition does not hold within a time.
func eventually(tb testing.TB, within time.Duration, cond func() bool) time.Duration {
	tb.Helper()
	begin := time.Now()
	for !cond() {
		if time.Since(begin) > within {
			tb.Fatalf("the condition does not hold after %v", within)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begin)
}

// TestBackgroundProcessesDie: no process of a program outlives it.
func TestBackgroundProcessesDie(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"background":  `sleep MARK & sleep 0.1`,
		"nohup":       `nohup sleep MARK >/dev/null 2>&1 & sleep 0.1`,
		"setsid":      `setsid sleep MARK >/dev/null 2>&1 & sleep 0.1`,
		"double fork": `(setsid sh -c '(trap "" TERM HUP INT; sleep MARK; :) & exit' >/dev/null 2>&1 &); sleep 0.1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, c Config) {
				t.Helper()
				m := mark(t)
				r := shell(t, c, strings.ReplaceAll(script, "MARK", m)+"; exit 4")
				if n := marked(t, m); n > 0 || r.Code != 4 || r.Left != 0 {
					t.Errorf("%d processes outlived the program, which ended with %+v; want none, and code 4", n, r)
				}
			})
		})
	}
}

// startTrees runs programs with a process in a session of its own each, until
// ctx ends. It returns when all of the processes are there. Wait returns when
// every Run has returned.
func startTrees(ctx context.Context, tb testing.TB, c Config, m string, trees int) (wait func()) {
	tb.Helper()
	var wg sync.WaitGroup
	for range trees {
		wg.Go(func() {
			r, err := Run(ctx, c, []string{"sh", "-c", "(setsid sleep " + m + " &); sleep " + m + " & wait"}, nil)
			if err != nil || !errors.Is(r.Cause, context.Canceled) {
				tb.Errorf("ended with %+v, error %v; want the cause %v", r, err, context.Canceled)
			}
		})
	}
	eventually(tb, time.Minute, func() bool {
		time.Sleep(50 * time.Millisecond) // the count takes a while itself
		return marked(tb, "sleep\x00"+m) == 2*trees
	})
	return wg.Wait
}

// TestCancelEndsManyTrees: fifty programs have a process in a session of its
// own each. When their context ends, Run returns and all of their processes are
// dead. BenchmarkCancel measures how long that takes.
func TestCancelEndsManyTrees(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		m := mark(t)
		ctx, cancel := context.WithCancel(t.Context())
		wait := startTrees(ctx, t, c, m, 50)
		begin := time.Now()
		cancel()
		wait()
		t.Logf("the programs took %v to end", time.Since(begin))
		if n := marked(t, m); n > 0 {
			t.Errorf("%d processes are alive, want none", n)
		}
	})
}

// BenchmarkCancel cancels fifty programs with a process in a session of its own
// each: ms/cancel is the time until all are dead. Times-kill is that time as a
// multiple of the time that kill(2) and wait(2) take for as many processes
// without a helper.
func BenchmarkCancel(b *testing.B) {
	const trees = 50
	if _, err := probed(); err != nil {
		b.Skipf("no sandbox here: %v", err)
	}
	var cancelled, killed time.Duration
	for b.Loop() {
		m := mark(b)
		ctx, cancel := context.WithCancel(b.Context())
		wait := startTrees(ctx, b, setUp(b), m, trees)
		begin := time.Now()
		cancel()
		wait()
		cancelled += time.Since(begin)
		if n := marked(b, m); n > 0 {
			b.Fatalf("%d processes are alive, want none", n)
		}
		killed += killDirectly(b, 2*trees)
	}
	b.ReportMetric(float64(cancelled.Milliseconds())/float64(b.N), "ms/cancel")
	b.ReportMetric(float64(cancelled)/float64(killed), "times-kill")
}

// killDirectly starts processes. It returns the time that it takes to kill them
// and to wait for them.
func killDirectly(b *testing.B, processes int) time.Duration {
	b.Helper()
	all := make([]*exec.Cmd, processes)
	for i := range all {
		all[i] = exec.CommandContext(b.Context(), "sleep", mark(b))
		if err := all[i].Start(); err != nil {
			b.Fatal(err)
		}
	}
	begin := time.Now()
	for _, cmd := range all {
		_ = cmd.Process.Kill()
	}
	for _, cmd := range all {
		_ = cmd.Wait() // it says that the process was killed
	}
	return time.Since(begin)
}

// TestWorkerKilled: when a worker is killed, all processes of its program die,
// and the program's TMPDIR is removed.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		m := mark(t)
		worker := exec.CommandContext(t.Context(), os.Args[0],
			attemptArg, "worker", c.Dir, c.TempBase, m, strconv.FormatBool(c.Off))
		worker.Stderr = os.Stderr
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, func() bool { return marked(t, "sleep\x00"+m) == 2 })
		_ = worker.Process.Kill()
		_ = worker.Wait()
		took := eventually(t, 3*time.Second, func() bool { return marked(t, m) == 0 })
		t.Logf("all processes ended %v after the worker", took)
		eventually(t, 3*time.Second, func() bool { e, _ := os.ReadDir(c.TempBase); return len(e) == 0 })
	})
}

// TestHelperKilled: when a helper is killed, Run returns ErrLost, and all
// processes of its program die. The worker kills them, or the end of their
// namespace does.
func TestHelperKilled(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		m := mark(t)
		done := make(chan error)
		script := "(setsid sleep " + m + " &); sleep " + m + "; :"
		go func() {
			_, err := Run(t.Context(), c, []string{"sh", "-c", script}, nil)
			done <- err
		}()
		eventually(t, 10*time.Second, func() bool { return marked(t, m) == 3 })
		if err := unix.Kill(parentOf(t, "sh\x00-c\x00"+script), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("got error %v, want %v", err, ErrLost)
		}
		eventually(t, 3*time.Second, func() bool { return marked(t, m) == 0 })
	})
}

// parentOf returns the id of the parent of the process with a command line that
// begins with a text. A shell that has just forked has a child with the same
// command line, and is not meant.
func parentOf(t *testing.T, text string) int {
	t.Helper()
	begins := func(process int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process))
		return strings.HasPrefix(string(line), text)
	}
	for parent, children := range allParents() {
		if !begins(parent) && slices.ContainsFunc(children, begins) {
			return parent
		}
	}
	t.Fatalf("no process has a command line that begins with %q", text)
	return 0
}

// TestScanOfAllProcesses: allParents finds a child of this process. The package
// uses it where the kernel does not list the children of a process.
func TestScanOfAllProcesses(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	found := false
	for _, pid := range allParents()[os.Getpid()] {
		found = found || pid == cmd.Process.Pid
	}
	if !found {
		t.Errorf("the scan does not find the child %d", cmd.Process.Pid)
	}
}
