//go:build unix

package mcpclient

import (
	"os"
	"syscall"
)

// ownGroup lets a process start a session, and with it a group. A key that
// interrupts the worker at a terminal does not reach it.
func ownGroup() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	dieWithParent(attr)
	return attr
}

func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
