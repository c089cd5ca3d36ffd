//go:build !unix

package sandbox

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func exitCode(state *os.ProcessState) (code, signal int) { return state.ExitCode(), 0 }
