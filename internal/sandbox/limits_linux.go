package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// threadsAProcess is a number of threads that most programs do not reach.
const threadsAProcess = 16

// limit sets the limits of a process. Its children inherit them. The user has
// so many threads already.
func (s spec) limit(threads int) error {
	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{
		{"memory", unix.RLIMIT_DATA, uint64(s.MaxMemory)},
		{"size of a file", unix.RLIMIT_FSIZE, uint64(s.MaxFile)},
		{"open files", unix.RLIMIT_NOFILE, uint64(s.MaxOpen)},
		{"core files", unix.RLIMIT_CORE, 0},
		// The helper counts processes. This bounds how many there may be
		// between two looks, and threads. It does not bind root.
		{"processes of the user", unix.RLIMIT_NPROC, uint64(threads + threadsAProcess*s.MaxProcs)},
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil {
			return fmt.Errorf("read the limit of %s: %w", l.name, err)
		}
		most := min(l.most, now.Max)
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	return nil
}

// kept are the capabilities that a worker of root leaves to a program: those to
// use files of other users. Landlock still says which files.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// dropCapabilities drops all other capabilities, also for programs that root
// executes.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if kept&(1<<c) == 0 {
			err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
			if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("drop capability %d: %w", c, err)
			}
		}
	}
	caps[0] = unix.CapUserData{Effective: caps[0].Effective & kept, Permitted: caps[0].Permitted & kept}
	caps[1] = unix.CapUserData{}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
