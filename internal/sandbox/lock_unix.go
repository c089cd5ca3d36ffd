//go:build linux || darwin

package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is the error of a lock that a process has.
var errLocked = errors.New("a process has the directory locked")

// lockDir locks a directory until the file is closed, at the latest with this
// process. It follows no link. A process that this one starts does not inherit
// the lock.
func lockDir(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// owned reports whether a file belongs to the user of this process.
func owned(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid()
}
