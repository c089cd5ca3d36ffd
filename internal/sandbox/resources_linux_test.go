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

// A line that does not end is held by tail.
func TestMemoryOfAProcess(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxMemory = 100 << 20
		if r := shell(t, c, "head -c 200000000 /dev/zero | tail >/dev/null"); (r.Code == 0) != c.Off {
			t.Errorf("ended with %+v: in the sandbox it has no 200 MB", r)
		}
	})
}

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

func TestMuchOutput(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		size := int64(1e9)
		if c.Off || c.Namespaces {
			size = 1e7
		}
		r := shell(t, c, fmt.Sprintf("echo begin; yes | head -c %d; echo end", size))
		total := int64(len(r.Output.Head)) + r.Output.Dropped + int64(len(r.Output.Tail))
		if r.Code != 0 || total != size+10 {
			t.Errorf("code %d, %d bytes, want %d", r.Code, total, size+10)
		}
		text := r.Output.String()
		if !strings.HasPrefix(text, "begin\ny\n") || !strings.HasSuffix(text, "\ny\nend\n") ||
			len(text) > 2*DefaultKeep+100 {
			t.Errorf("%d bytes kept, from %q to %q", len(text), text[:10], text[len(text)-10:])
		}
		left(t, c.TempBase)
	})
}

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
				t.Errorf("limit of processes %q, want 1600 more than now", r.Output)
			}
		}
		if r := shell(t, c, "ulimit -n; ulimit -Hn; ulimit -c"); r.Output.String() != "64\n64\n0\n" {
			t.Errorf("limits %q, want 64, 64 and 0", r.Output)
		}
	})
}
