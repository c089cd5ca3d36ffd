package bus

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is the time for which this machine was suspended since its start.
// The monotonic clock stands still in that time. It may be wrong by the time
// between the two readings, and is 0 if the kernel does not tell.
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
