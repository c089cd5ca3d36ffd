//go:build unix

package bench

import (
	"runtime"
	"syscall"
	"time"
)

// used is the usage of this process so far.
func used() usage {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return usage{}
	}
	peak := int64(u.Maxrss) //nolint:unconvert // another type on some systems
	if runtime.GOOS != "darwin" {
		// Other systems count in KiB.
		peak <<= 10
	}
	return usage{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), Peak: peak}
}
