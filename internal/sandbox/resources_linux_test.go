package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func resourceAttempts() map[string]attemptFunc {
	return map[string]attemptFunc{
		// Uses so many MiB, in so many pieces.
		"memory": func(args []string) error {
			var held [][]byte
			for range number(args[0]) {
				piece := make([]byte, 1<<20)
				for i := 0; i < len(piece); i += 4096 {
					piece[i] = 1
				}
				held = append(held, piece)
			}
			if len(args) > 1 {
				time.Sleep(time.Minute)
			}
			runtime.KeepAlive(held)
			return nil
		},
	}
}

func TestMemoryOfAProcess(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.Read = []string{os.Args[0]}
		c.MaxMemory = 200 << 20
		r, err := Run(t.Context(), c, []string{os.Args[0], attemptArg, "memory", "400"}, nil)
		if err != nil || (r.Code == 0) != c.Off {
			t.Errorf("ended with %+v, %v: in the sandbox it has no 400 MiB", r.Code, err)
		}
	})
}

func TestMemoryOfManyProcesses(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.Read = []string{os.Args[0]}
		c.MaxMemory = 300 << 20
		m := mark(t)
		r := shell(t, c, "for i in 1 2 3 4; do '"+os.Args[0]+"' "+attemptArg+" memory 100 "+m+" & done; wait")
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
		if !errors.Is(r.Cause, ErrProcesses) || marked(t, m) > 0 || r.Left > 0 {
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

func TestOpenFiles(t *testing.T) {
	t.Parallel()
	bothSandboxes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.MaxOpen = 64
		if r := shell(t, c, "ulimit -n; ulimit -Hn; ulimit -c"); r.Output.String() != "64\n64\n0\n" {
			t.Errorf("limits %q, want 64, 64 and 0", r.Output)
		}
	})
}
