package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMemoryOfAProcess: a process that uses more than MaxMemory fails in the
// sandbox, and only there. Here tail keeps a line of 200 MB.
func TestMemoryOfAProcess(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxMemory = 100 << 20
		if r := shell(t, c, "head -c 200000000 /dev/zero | tail >/dev/null"); (r.Code == 0) != c.Off {
			t.Errorf("ended with %+v: want that 200 MB are too much in the sandbox, and only there", r)
		}
	})
}

// TestMemoryOfManyProcesses: a program is killed if its processes use more than
// MaxMemory together, though each of them uses less.
func TestMemoryOfManyProcesses(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxMemory = 200 << 20
		m := mark(t)
		hog := "(head -c 80000000 /dev/zero; sleep " + m + ") | tail >/dev/null & "
		r := shell(t, c, strings.Repeat(hog, 5)+"wait")
		if !errors.Is(r.Cause, ErrMemory) || r.Code != 137 || marked(t, m) > 0 {
			t.Errorf("ended with %+v, want %v and no process left", r, ErrMemory)
		}
	})
}

// TestForkBomb: a program with more than MaxProcs processes is killed, with all
// of them.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxProcs = 40
		m := mark(t)
		begin := time.Now()
		bomb := "n=0; while [ $n -lt 2000 ]; do (trap '' TERM; setsid sleep MARK & sleep MARK) & n=$((n+1)); done; wait"
		r := shell(t, c, strings.ReplaceAll(bomb, "MARK", m))
		contained := errors.Is(r.Cause, ErrProcesses) ||
			strings.Contains(strings.ToLower(r.Output.String()), "fork") // refused by the kernel, except to root
		if !contained || marked(t, m) > 0 || r.Left > 0 {
			t.Errorf("ended with %+v, %d processes left, want %v", r, marked(t, m), ErrProcesses)
		}
		t.Logf("it was ended after %v", time.Since(begin))
	})
}

// TestMuchOutput: the beginning and the end of a long output are kept, and its
// length is counted. The program runs to its end.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		size := int64(1e9)
		if c.Off || c.Namespaces {
			size = 1e7 // one mode with a long output is enough
		}
		r := shell(t, c, fmt.Sprintf("echo begin; yes | head -c %d; echo end", size))
		want := size + int64(len("begin\nend\n"))
		total := int64(len(r.Output.Head)) + r.Output.Dropped + int64(len(r.Output.Tail))
		if r.Code != 0 || total != want {
			t.Errorf("code %d, %d bytes of output; want code 0, %d bytes", r.Code, total, want)
		}
		text := r.Output.String()
		if !strings.HasPrefix(text, "begin\ny\n") || !strings.HasSuffix(text, "\ny\nend\n") ||
			len(text) > 2*DefaultKeep+100 {
			t.Errorf("%d bytes are kept, from %q to %q; want at most %d, from begin to end",
				len(text), text[:10], text[len(text)-10:], 2*DefaultKeep+100)
		}
		wantEmpty(t, c.TempBase)
	})
}

// TestHugeFile: a file does not grow beyond MaxFile in the sandbox.
func TestHugeFile(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxFile = 1 << 20
		r := shell(t, c, "head -c 4000000 /dev/zero >f")
		info, err := os.Stat(filepath.Join(c.Dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int64{true: 4000000, false: 1 << 20}[c.Off]; info.Size() != want || (r.Code == 0) != c.Off {
			t.Errorf("the file has %d bytes, want %d: %+v", info.Size(), want, r)
		}
	})
}

// TestLimits: a program has the limit MaxOpen of open files, and makes no core
// dumps. The kernel's limit of processes leaves the user 16 threads for each of
// MaxProcs, beside those that it has already.
func TestLimits(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxOpen = 64
		c.MaxProcs = 100
		if _, err := exec.LookPath("bash"); err == nil {
			var most int
			r := shell(t, c, "bash -c 'ulimit -Hu'")
			if _, err := fmt.Sscan(r.Output.String(), &most); err != nil || most < 1600 || most > 1e5 {
				t.Errorf("got the limit of processes %q, want 1600 more than the user has", r.Output)
			}
		}
		if r := shell(t, c, "ulimit -n; ulimit -Hn; ulimit -c"); r.Output.String() != "64\n64\n0\n" {
			t.Errorf("got the limits %q, want 64, 64 and 0", r.Output)
		}
	})
}
