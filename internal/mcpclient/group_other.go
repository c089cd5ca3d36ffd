//go:build !unix

package mcpclient

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }
