// Package sdnotify tells the service manager of a process how far the process
// is, in the protocol of sd_notify(3). It does nothing without a service
// manager.
//
//	manager, err := sdnotify.FromEnv()
//	if err != nil {
//		return err
//	}
//	err = manager.Send(sdnotify.Ready)
package sdnotify

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// States of a process. Status makes another one.
const (
	// Ready says that the process serves.
	Ready = "READY=1"
	// Stopping says that the process ends.
	Stopping = "STOPPING=1"
	// Watchdog says that the process works. It is due once in each
	// Manager.Watchdog.
	Watchdog = "WATCHDOG=1"
)

// Status is a line for people, which systemctl status shows.
func Status(line string) string { return "STATUS=" + strings.ReplaceAll(line, "\n", " ") }

// Manager is the service manager of this process. The zero value is none.
type Manager struct {
	// Watchdog is the time within which the manager wants a sign of life; 0
	// if it wants none.
	Watchdog time.Duration

	socket string
}

// FromEnv returns the service manager that the environment names: its socket in
// NOTIFY_SOCKET, and the time of its watchdog in WATCHDOG_USEC. A watchdog of
// another process, in WATCHDOG_PID, is ignored.
func FromEnv() (Manager, error) {
	m := Manager{socket: os.Getenv("NOTIFY_SOCKET")}
	if m.socket == "" {
		return m, nil
	}
	if m.socket[0] != '/' && m.socket[0] != '@' {
		return Manager{}, fmt.Errorf("NOTIFY_SOCKET must be an absolute path, or begin with @, got %q", m.socket)
	}
	self := strconv.Itoa(os.Getpid())
	text := os.Getenv("WATCHDOG_USEC")
	if text == "" || cmp.Or(os.Getenv("WATCHDOG_PID"), self) != self {
		return m, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return Manager{}, fmt.Errorf("WATCHDOG_USEC must be microseconds up to a day, got %q", text)
	}
	m.Watchdog = time.Duration(n) * time.Microsecond
	return m, nil
}

// Send tells the manager states, in one message. The manager has the message
// when Send returns.
func (m Manager) Send(states ...string) error {
	if m.socket == "" || len(states) == 0 {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(strings.Join(states, "\n"))); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// sendTimeout bounds the wait for a manager that does not read its socket.
const sendTimeout = 5 * time.Second

// KeepAlive sends two signs of life in each Manager.Watchdog, until ctx ends.
// Before each it calls works, and sends nothing until works returns. Without a
// watchdog KeepAlive returns at once.
func (m Manager) KeepAlive(ctx context.Context, works func()) {
	if m.Watchdog <= 0 {
		return
	}
	ticks := time.NewTicker(max(m.Watchdog/2, time.Millisecond))
	defer ticks.Stop()
	for {
		works()
		// A message that is lost leads to a restart, as it should.
		_ = m.Send(Watchdog)
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}
