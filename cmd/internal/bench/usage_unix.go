//go:build unix

package bench

import (
	"runtime"
	"syscall"
	"time"
)

// used is what this process has used since it began.
func used() usage {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return usage{}
	}
	peak := int64(u.Maxrss) //nolint:unconvert // not of this type on every system
	if runtime.GOOS != "darwin" {
		peak <<= 10 // KiB elsewhere
	}
	return usage{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), Peak: peak}
}
