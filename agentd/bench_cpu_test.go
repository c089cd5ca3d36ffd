//go:build unix

package agentd_test

import (
	"syscall"
	"time"
)

// cpu is the processor time that this process has used. Ratios of it hold on a machine whose cores
// others use too.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
