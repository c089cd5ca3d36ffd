package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// bothModes runs a test without a sandbox, and in both kinds of sandbox.
func bothModes(t *testing.T, test func(t *testing.T, c Config)) {
	t.Helper()
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		c := setUp(t)
		c.Off = true
		test(t, c)
	})
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		bothSandboxes(t, test)
	})
}

// bothSandboxes runs a test in a sandbox without namespaces, and in one with
// them.
func bothSandboxes(t *testing.T, test func(t *testing.T, c Config)) {
	t.Helper()
	for _, namespaces := range []bool{false, true} {
		t.Run(fmt.Sprintf("namespaces %t", namespaces), func(t *testing.T) {
			t.Parallel()
			if means := needSandbox(t); namespaces && !means.Namespaces {
				t.Skip("the kernel allows no namespaces here")
			}
			c := setUp(t)
			c.Namespaces = namespaces
			test(t, c)
		})
	}
}

// probed probes the machine once.
var probed = sync.OnceValues(func() (Means, error) { return Probe(context.Background()) })

// needSandbox skips a test on a machine without a sandbox. It fails the test if
// Probe found a sandbox that does not hold a program. It returns the means.
func needSandbox(t *testing.T) Means {
	t.Helper()
	means, err := probed()
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "did not hold it"):
		t.Fatal(err)
	default:
		t.Skipf("no sandbox here: %v", err)
	}
	return means
}

// TestRun: a program gets its input, environment and directory. Run returns its
// output, with the standard error in it, and its code.
func TestRun(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.Env = append(c.Env, "GREETING=hello")
		script := "read name; echo $GREETING $name; pwd; echo bad >&2; exit 3"
		out, err := Run(t.Context(), c, []string{"sh", "-c", script}, []byte("Ada\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := out.Output.String(), "hello Ada\n"+c.Dir+"\nbad\n"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
		if out.Code != 3 || out.Signal != 0 || out.Cause != nil {
			t.Errorf("ended with %+v, want code 3", out)
		}
	})
}

// TestBytes: arguments, variables and input may be any bytes.
func TestBytes(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		c.Env = append(c.Env, "V=\xff")
		input := bytes.Repeat([]byte("0123456789abcdef"), 1<<14) // more than a pipe holds
		r, err := Run(t.Context(), c, []string{"sh", "-c", `printf '%s' "$1$V"; wc -c`, "sh", "\xfe\n"}, input)
		if got := string(r.Output.Head); err != nil || got != "\xfe\n\xff262144\n" {
			t.Errorf("output %q, error %v, want the argument, the variable and 262144 bytes", got, err)
		}
		if r := shell(t, c, "exec true"); r.Code != 0 {
			t.Errorf("a program that reads no input: %+v, want code 0", r)
		}
	})
}

// TestEndedBySignal: a program that signal 9 ends has the Signal 9 and the Code
// 137.
func TestEndedBySignal(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		if r := shell(t, c, "kill -9 $$"); r.Code != 137 || r.Signal != 9 || r.Cause != nil {
			t.Errorf("ended with %+v, want code 137 and signal 9", r)
		}
	})
}

// TestNotRun: a program that cannot be run gives an error that says why, and
// leaves no TMPDIR behind.
func TestNotRun(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		for want, change := range map[string]func(c *Config, argv *[]string){
			`absent" is not in the PATH`: func(_ *Config, argv *[]string) { *argv = []string{"absent"} },
			"no program was given":       func(_ *Config, argv *[]string) { *argv = nil },
			"must be an absolute path":   func(c *Config, _ *[]string) { c.Dir = "here" },
			"no such file":               func(c *Config, _ *[]string) { c.Dir += "/no-such" },
			"NAME=VALUE":                 func(c *Config, _ *[]string) { c.Env = []string{"x"} },
			"16 or more open files":      func(c *Config, _ *[]string) { c.MaxOpen = 1 },
			"memory limit":               func(c *Config, _ *[]string) { c.MaxMemory = 1 },
		} {
			changed, argv := c, []string{"sh"}
			change(&changed, &argv)
			if _, err := Run(t.Context(), changed, argv, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		}
		wantEmpty(t, c.TempBase)
	})
}

// wantEmpty fails the test if a directory has an entry.
func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s has the entries %v, error %v, want none", dir, entries, err)
	}
}

// TestTempIsRemoved: TMPDIR is for the program alone, and is removed whatever
// the program has left in it.
func TestTempIsRemoved(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		r := shell(t, c, `set -e; cd "$TMPDIR"; stat -c %a . 2>/dev/null || stat -f %Lp .; mkdir -p a/b c; echo x >a/b/f
			ln -s / a/root; mkfifo a/pipe; chmod 000 a/b c; chmod 100 a; chmod 000 .`)
		if got := r.Output.String(); got != "700\n" {
			t.Errorf("TMPDIR has mode %q, want 700 (%+v)", got, r)
		}
		wantEmpty(t, c.TempBase)
	})
}

// TestEnvironmentIsComplete: a program has the variables in Env, a TMPDIR of
// its own, and the variables that the shell sets. It inherits none of the
// worker's.
func TestEnvironmentIsComplete(t *testing.T) {
	t.Setenv("AXE_TEST_SECRET", "secret")
	c := setUp(t)
	c.Off = runtime.GOOS != "linux"
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/elsewhere"}
	r := shell(t, c, "env")
	seen := map[string]bool{}
	for line := range strings.Lines(r.Output.String()) {
		name, value, _ := strings.Cut(line, "=")
		seen[name] = true
		switch name {
		case "PATH", "PWD", "SHLVL", "_", "OLDPWD":
		case "TMPDIR":
			if filepath.Dir(value) != c.TempBase {
				t.Errorf("TMPDIR is %s, want a directory below %s", value, c.TempBase)
			}
		default:
			t.Errorf("the environment has the inherited %s, want none of the worker", line)
		}
	}
	if !seen["PATH"] || !seen["TMPDIR"] {
		t.Errorf("the environment is %q, want PATH and TMPDIR in it", r.Output)
	}
}

// TestGrace: when its context ends, a program gets SIGTERM. It is killed if it
// still runs after Grace.
func TestGrace(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		cause := errors.New("no more time")
		for _, tt := range []struct {
			script string
			code   int
			last   string
		}{
			{"trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done", 7, "bye\n"},
			{"trap '' TERM; echo ready; while :; do sleep 0.05; done", 137, "ready\n"},
		} {
			c.Grace = 300 * time.Millisecond
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			r := shellUntil(ctx, t, c, tt.script)
			cancel()
			if r.Code != tt.code || !errors.Is(r.Cause, cause) || !strings.HasSuffix(r.Output.String(), tt.last) {
				t.Errorf("%s: %+v (%s), want code %d and %q", tt.script, r, r.Output, tt.code, tt.last)
			}
		}
	})
}
