package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAttempts has the attempts with other features of the kernel, by name.
func kernelAttempts() map[string]attemptFunc {
	return map[string]attemptFunc{
		"namespace": func(args []string) error {
			cmd := exec.CommandContext(context.Background(), "/bin/true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(number(args[0]))}
			return cmd.Run()
		},
		"clone3": func(args []string) error {
			// The call is not valid. EINVAL shows that it has
			// passed the filter.
			attr := [11]uint64{uint64(number(args[0]))}
			err := call(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&attr)), 1)
			if errors.Is(err, unix.EINVAL) {
				return nil
			}
			return err
		},
		"mount":   mount,
		"remount": remount,
		"unmount": unmount,
		"fsopen":  func([]string) error { return second(unix.Fsopen("tmpfs", 0)) },
		"io_uring": func([]string) error {
			params := make([]byte, 120)
			return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])))
		},
		"bpf":  func([]string) error { return bpfMap() },
		"perf": func([]string) error { return perf() },
		"userfaultfd": func([]string) error {
			return call(unix.SYS_USERFAULTFD, 1) // UFFD_USER_MODE_ONLY
		},
		"keyctl": func([]string) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
			return err
		},
		"shmget": func([]string) error {
			return makeIPC(unix.SYS_SHMGET, 4096, func(id uintptr) error {
				return call(unix.SYS_SHMCTL, id, unix.IPC_RMID)
			})
		},
		"semget": func([]string) error {
			return makeIPC(unix.SYS_SEMGET, 1, func(id uintptr) error {
				return call(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
			})
		},
		"mq_open": queue,
		"fanotify": func([]string) error {
			return second(unix.FanotifyInit(unix.FAN_CLASS_NOTIF, unix.O_RDONLY))
		},
		"clock": func([]string) error {
			var now unix.Timex
			if _, err := unix.Adjtimex(&now); err != nil {
				return err
			}
			now.Modes = 1 // ADJ_OFFSET, of 0
			now.Offset = 0
			_, err := unix.Adjtimex(&now)
			return err
		},
		"hostname": func([]string) error {
			name, err := os.Hostname()
			if err != nil {
				return err
			}
			return unix.Sethostname([]byte(name))
		},
		"tiocsti": typeInto,
	}
}

// second drops the first result of a call, and returns its error.
func second(_ int, err error) error { return err }

// mount mounts a file system in the working directory, and unmounts it.
func mount([]string) error {
	if err := os.Mkdir("m", 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "m", "tmpfs", 0, ""); err != nil {
		return err
	}
	return unix.Unmount("m", unix.MNT_DETACH)
}

// remount mounts a directory at its own place, makes the mount writable, and
// unmounts it.
func remount(args []string) error {
	if err := unix.Mount(args[0], args[0], "", unix.MS_BIND, ""); err != nil {
		return err
	}
	attr := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	err := unix.MountSetattr(unix.AT_FDCWD, args[0], 0, attr)
	return errors.Join(err, unix.Unmount(args[0], unix.MNT_DETACH))
}

// unmount asks to unmount a directory that is no mount. EINVAL shows that the
// call has passed the filter.
func unmount([]string) error {
	err := unix.Unmount("/usr/bin/.", 0)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// bpfMap makes a BPF map.
func bpfMap() error {
	attr := struct{ kind, key, value, entries, pad [1]uint32 }{
		kind: [1]uint32{unix.BPF_MAP_TYPE_ARRAY}, key: [1]uint32{4}, value: [1]uint32{4}, entries: [1]uint32{1},
	}
	return call(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

// perf opens a performance counter.
func perf() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return second(unix.PerfEventOpen(&attr, 0, -1, -1, 0))
}

// makeIPC makes a shared memory or a set of semaphores of SysV, and removes it.
func makeIPC(nr, size uintptr, remove func(id uintptr) error) error {
	id, _, errno := unix.Syscall(nr, 0, size, 0o600|unix.IPC_CREAT)
	if errno != 0 {
		return errno
	}
	return remove(id)
}

// queue opens a message queue, and removes it.
func queue([]string) error {
	name, err := unix.BytePtrFromString("axe-escape-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		return err
	}
	if err := call(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600); err != nil {
		return err
	}
	return call(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)))
}

// typeInto types into its standard input, which is no terminal. The error for
// that shows that the call has passed the filter.
func typeInto([]string) error {
	err := call(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(new(byte))))
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
