package sandbox

import (
	"errors"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attemptFunc makes an attempt with arguments, and returns nil if it worked.
type attemptFunc = func(args []string) error

// fileAttempts has the attempts on files, by name.
func fileAttempts() map[string]attemptFunc {
	return map[string]attemptFunc{
		"open": func(args []string) error { return open(args[0], unix.O_RDONLY) },
		"exchange": func(args []string) error {
			if err := os.WriteFile("mine", nil, 0o600); err != nil {
				return err
			}
			return unix.Renameat2(unix.AT_FDCWD, "mine", unix.AT_FDCWD, args[0], unix.RENAME_EXCHANGE)
		},
		"truncate":      func(args []string) error { return unix.Truncate(args[0], 0) },
		"truncate-open": func(args []string) error { return open(args[0], unix.O_RDONLY|unix.O_TRUNC) },
		"map": func(args []string) error {
			fd, err := unix.Open(args[0], unix.O_RDONLY, 0)
			if err == nil {
				_, err = unix.Mmap(fd, 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
			}
			return err
		},
		"inherited": func(args []string) error {
			_, err := unix.Pread(number(args[0]), make([]byte, 1), 0)
			return err
		},
		"disk":   readDisk,
		"handle": openByHandle,
	}
}

// open opens a file with flags.
func open(path string, flags int) error {
	_, err := unix.Open(path, flags, 0)
	return err
}

// number parses an argument of an attempt, in any base of Go.
func number(s string) int {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return int(n)
}

// readDisk opens the first disk that it may open.
func readDisk([]string) error {
	err := errors.New("there is no disk")
	for _, disk := range []string{"/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"} {
		if err = open(disk, unix.O_RDONLY); err == nil {
			return nil
		}
	}
	return err
}

// openByHandle opens a file by its handle, which needs no path.
func openByHandle(args []string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
	if err != nil {
		return err
	}
	dir, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
	return err
}

// processAttempts has the attempts on other processes, by name.
func processAttempts() map[string]attemptFunc {
	return map[string]attemptFunc{
		"vm-read": readMemory,
		"ptrace": func(args []string) error {
			return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(number(args[0])))
		},
		"pidfd-kill": func(args []string) error {
			fd, err := unix.PidfdOpen(number(args[0]), 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		},
		"pidfd-take": func(args []string) error {
			fd, err := unix.PidfdOpen(number(args[0]), 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		},
		"prlimit": func(args []string) error {
			return unix.Prlimit(number(args[0]), unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1, Max: 1}, nil)
		},
		"schedule": func(args []string) error {
			return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(number(args[0])), unix.SCHED_IDLE,
				uintptr(unsafe.Pointer(new(int32))))
		},
		"setns": func(args []string) error {
			fd, err := unix.PidfdOpen(number(args[0]), 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWUTS)
		},
	}
}

// readMemory reads a byte of the memory of a process, at an address where it
// has none. The error for the address shows that the kernel allowed the read.
func readMemory(args []string) error {
	buf := make([]byte, 1)
	local := []unix.Iovec{{Base: &buf[0], Len: 1}}
	_, err := unix.ProcessVMReadv(number(args[0]), local, []unix.RemoteIovec{{Base: 4096, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

// call makes a system call.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}
