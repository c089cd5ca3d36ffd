package sdnotify_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/internal/sdnotify"
)

// listen makes the socket of a service manager, and returns a function that
// reads the next message.
func listen(t *testing.T, name string) (next func() string) {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		t.Helper()
		buf := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

// fromEnv returns the manager of the environment.
func fromEnv(t *testing.T) sdnotify.Manager {
	t.Helper()
	m, err := sdnotify.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSend: the states of one call arrive in one message, at a socket in the
// file system and at an abstract one. A status has one line.
func TestSend(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@axe-sdnotify-" + strconv.Itoa(os.Getpid())} {
		next := listen(t, name)
		if err := fromEnv(t).Send(sdnotify.Ready, sdnotify.Status("serving\nall")); err != nil {
			t.Fatal(err)
		}
		if got, want := next(), "READY=1\nSTATUS=serving all"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestFromEnv: a malformed environment is an error that names the variable. A
// watchdog of another process is none.
func TestFromEnv(t *testing.T) {
	for _, tt := range []struct{ socket, usec, pid, wrong string }{
		{socket: "notify", wrong: "NOTIFY_SOCKET"},
		{socket: "/notify", usec: "ten", wrong: "WATCHDOG_USEC"},
		{socket: "/notify", usec: "0", wrong: "WATCHDOG_USEC"},
		{socket: "/notify", usec: "-1", wrong: "WATCHDOG_USEC"},
		{socket: "/notify", usec: "9223372036854775807", wrong: "WATCHDOG_USEC"},
		{socket: "/notify", usec: "2000000", pid: "1"},
		{usec: "ten"},
	} {
		t.Setenv("NOTIFY_SOCKET", tt.socket)
		t.Setenv("WATCHDOG_USEC", tt.usec)
		t.Setenv("WATCHDOG_PID", tt.pid)
		m, err := sdnotify.FromEnv()
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%+v: got the error %v", tt, err)
		}
		if m.Watchdog != 0 {
			t.Errorf("%+v: got the watchdog %s, want none", tt, m.Watchdog)
		}
	}
	t.Setenv("NOTIFY_SOCKET", "/notify")
	t.Setenv("WATCHDOG_USEC", "2000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	if m := fromEnv(t); m.Watchdog != 2*time.Second {
		t.Errorf("got the watchdog %s, want 2s", m.Watchdog)
	}
}

// TestNoManager: without a service manager nothing is sent. A manager that is
// gone is an error.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := fromEnv(t).Send(sdnotify.Ready); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if err := fromEnv(t).Send(sdnotify.Ready); err == nil {
		t.Error("no error without a socket")
	}
}

// TestKeepAlive: a sign of life follows each check that returns, and none
// follows a check that hangs.
func TestKeepAlive(t *testing.T) {
	next := listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "2000")
	m := fromEnv(t)
	hangs, release := make(chan struct{}), make(chan struct{})
	checks := 0
	works := func() {
		if checks++; checks == 3 {
			close(hangs)
			<-release
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var kept sync.WaitGroup
	kept.Go(func() { m.KeepAlive(ctx, works) })
	select {
	case <-hangs:
	case <-time.After(time.Minute):
		t.Fatal("no third check within a minute")
	}
	// This message is behind all signs of life so far.
	if err := m.Send("MARK=1"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{sdnotify.Watchdog, sdnotify.Watchdog, "MARK=1"} {
		if got := next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	close(release)
	if got := next(); got != sdnotify.Watchdog {
		t.Errorf("got %q after the check, want %q", got, sdnotify.Watchdog)
	}
	stop()
	kept.Wait()
}
