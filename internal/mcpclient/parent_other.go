//go:build unix && !linux

package mcpclient

import "syscall"

// dieWithParent does nothing. A process has to notice the end of its input.
func dieWithParent(*syscall.SysProcAttr) {}
