package sandbox

import (
	"encoding/gob"
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The file descriptors of the second process, besides the standard ones. The
// helper reads the reason from failFD if the program did not start.
const (
	specFD = 3
	failFD = 4
)

// program restricts itself and becomes the program. Restrictions are those of a
// thread, so it stays on one.
func program() int {
	runtime.LockOSThread()
	unix.CloseOnExec(failFD)
	file := os.NewFile(specFD, "spec")
	var s spec
	err := gob.NewDecoder(file).Decode(&s)
	_ = file.Close()
	if err == nil {
		err = s.become()
	}
	_, _ = os.NewFile(failFD, "failure").WriteString(err.Error())
	return 1
}

// become returns only with an error.
func (s spec) become() error {
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("enter the working directory: %w", err)
	}
	path, err := find(s.Argv[0], s.Config)
	if err != nil {
		return err
	}
	if err := closeAll(); err != nil && !s.Off {
		return fmt.Errorf("close the worker's files: %w", err)
	}
	if !s.Off {
		if err := s.restrict(); err != nil {
			return err
		}
	}
	if s.Check != nil {
		s.Check.run(s)
	}
	if err := unix.Exec(path, s.Argv, s.environment(s.Tmp)); err != nil {
		return fmt.Errorf("execute %s: %w", path, err)
	}
	return nil
}

// closeAll lets no file besides the standard ones reach the program: the worker
// may have inherited some itself.
func closeAll() error {
	return unix.CloseRange(specFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}

// restrict puts this thread into the sandbox, for ever. Landlock needs
// no_new_privs, and opens paths, so it comes before the seccomp filter. The
// limits come last: they are the program's, and may be too low for this code.
func (s spec) restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	threads := userThreads()
	if err := dropCapabilities(); err != nil {
		return err
	}
	abi, err := s.landlock()
	if err != nil {
		return err
	}
	if err := installFilter(s.Network, abi); err != nil {
		return err
	}
	return s.limit(threads)
}
