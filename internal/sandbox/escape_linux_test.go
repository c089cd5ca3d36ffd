package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// escape is an action that a program in a sandbox must not be able to do. It is
// a script of sh, which ends with 0 if it worked, or an attempt of the test
// binary. Both may use these variables.
//
// OUT is a directory outside with a file "secret", a file "plain" and a program
// "prog". READ is a file that may be read and not written. VICTIM is a process
// outside, whose environment has the word "secret". TCP, TCP6 and UDP are
// addresses of sockets outside, SOCK is the path of a Unix socket, and ABSTRACT
// the name of one. FD is a file that the worker has inherited.
type escape struct {
	name   string
	script string          // of sh
	try    []string        // or an attempt and its arguments
	root   bool            // works for root only, even without a sandbox
	change func(c *Config) // before the run, unless nil
	abi    int             // the least version of Landlock that refuses it
	mounts bool            // refused only with namespaces
}

// TestEscapes: each escape fails in a sandbox. The test skips an escape that
// does not work on this machine without a sandbox either.
func TestEscapes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	for _, e := range escapes() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			if e.root && os.Geteuid() != 0 {
				t.Skip("it needs root, even without a sandbox")
			}
			c := setUp(t)
			c.Off = true
			if r := e.run(t, c); r.Code != 0 {
				t.Skipf("it does not work here without a sandbox either: code %d, %s", r.Code, r.Output)
			}
			bothSandboxes(t, e.refused)
		})
	}
}

// refused runs the escape in a sandbox. It must not work.
func (e escape) refused(t *testing.T, c Config) {
	t.Helper()
	switch means := needSandbox(t); {
	case !c.Namespaces && e.mounts:
		t.Skip("it is refused only with namespaces")
	case !c.Namespaces && means.Landlock < e.abi:
		t.Skipf("it is refused by Landlock %d or later, or with namespaces", e.abi)
	}
	r := e.run(t, c)
	if r.Code == 0 || r.Code >= 126 {
		t.Errorf("code %d, want 1 to 125, as of an attempt that was refused: %s", r.Code, r.Output)
	}
	t.Logf("refused: %s", strings.TrimSpace(r.Output.String()))
}

// run runs the escape with a Config, and with the things outside.
func (e escape) run(t *testing.T, c Config) Result {
	t.Helper()
	c.Env = append(c.Env, outside(t, c)...)
	c.Read = []string{os.Args[0], variable(c, "READ")}
	if e.change != nil {
		e.change(&c)
	}
	argv := []string{"/bin/sh", "-c", e.script}
	if e.try != nil {
		argv = []string{os.Args[0], attemptArg}
		for _, arg := range e.try {
			argv = append(argv, os.Expand(arg, func(name string) string { return variable(c, name) }))
		}
	}
	r, err := Run(t.Context(), c, argv, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// variable returns a variable of the program's environment, or "".
func variable(c Config, name string) string {
	for _, e := range c.Env {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// outside makes the files, the process and the sockets that escapes try to
// reach. It returns their variables.
func outside(t *testing.T, c Config) []string {
	t.Helper()
	out := filepath.Join(filepath.Dir(c.Dir), "outside")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"secret": 0o600, "plain": 0o644, "prog": 0o755} {
		if err := os.WriteFile(filepath.Join(out, name), []byte("#!/bin/sh\necho secret\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"OUT=" + out, "READ=" + filepath.Join(out, "plain"), "VICTIM=" + strconv.Itoa(victim(t)),
		"FD=" + strconv.Itoa(inheritable(t, filepath.Join(out, "secret"))),
	}
	return append(env, listeners(t, out)...)
}

// victim starts a process outside, until the test ends. It returns its id.
func victim(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sleep", "600")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "KEY=secret"}
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// inheritable opens a file without the flag close-on-exec, as if this process
// had inherited it. It returns the descriptor.
func inheritable(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 100) // beyond the pipes of helpers
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	t.Cleanup(func() { _ = unix.Close(high) })
	return high
}

// listeners opens sockets outside, until the test ends. It returns their
// variables.
func listeners(t *testing.T, out string) []string {
	t.Helper()
	var config net.ListenConfig
	abstract := fmt.Sprintf("@axe-%x", sha256.Sum256([]byte(out))) // out is unique
	var env []string
	for _, l := range []struct{ name, network, address string }{
		{"TCP", "tcp4", "127.0.0.1:0"},
		{"TCP6", "tcp6", "[::1]:0"},
		{"SOCK", "unix", filepath.Join(out, "s")},
		{"ABSTRACT", "unix", abstract},
	} {
		listener, err := config.Listen(t.Context(), l.network, l.address)
		if err != nil {
			t.Logf("no listener %s: %v", l.name, err)
			continue
		}
		t.Cleanup(func() { _ = listener.Close() })
		env = append(env, l.name+"="+listener.Addr().String())
	}
	udp, err := config.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	return append(env, "UDP="+udp.LocalAddr().String())
}
