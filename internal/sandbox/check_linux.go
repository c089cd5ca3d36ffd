package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// check is the list of things that Probe tries in a sandbox.
type check struct {
	Secret string // a file outside
	Port   int    // of a listener on 127.0.0.1
	Worker int    // process id
}

// run tries everything, prints what went wrong, and ends the process.
func (k check) run(s spec) {
	var wrong []string
	for _, t := range k.tries(s) {
		if err := t.do(); (err == nil) != t.allowed {
			wrong = append(wrong, fmt.Sprintf("%s (%v)", t.name, err))
		}
	}
	if len(wrong) == 0 {
		unix.Exit(0)
	}
	for i, w := range wrong {
		if i > 0 {
			fmt.Print(", ")
		}
		fmt.Print(w)
	}
	unix.Exit(1)
}

type try struct {
	name    string // as it is told when it went wrong
	allowed bool
	do      func() error
}

func (k check) tries(s spec) []try {
	write := func(path string) func() error {
		return func() error { return os.WriteFile(path, nil, 0o600) }
	}
	read := func(path string) func() error {
		return func() error { _, err := os.ReadFile(path); return err }
	}
	return []try{
		{"TMPDIR cannot be written", true, write(filepath.Join(s.Tmp, "file"))},
		{"the working directory cannot be read", true, read(filepath.Join(s.Dir, "mine"))},
		{"a file outside was read", false, read(k.Secret)},
		{"a directory outside was listed", false, func() error {
			_, err := os.ReadDir(filepath.Dir(k.Secret))
			return err
		}},
		{"a file outside was written", false, write(k.Secret)},
		{"a file outside was made", false, write(k.Secret + "2")},
		{"a file outside was truncated", false, func() error { return unix.Truncate(k.Secret, 0) }},
		{"a file outside was linked", false, func() error {
			return os.Link(k.Secret, filepath.Join(s.Tmp, "link"))
		}},
		{"a file outside was removed", false, func() error { return os.Remove(k.Secret) }},
		{"the working directory was written", false, write(filepath.Join(s.Dir, "new"))},
		{"the environment of the worker was read", false, read(fmt.Sprintf("/proc/%d/environ", k.Worker))},
		{"a port of this machine was connected to", false, k.connect},
		{"a Unix socket was made", false, func() error {
			_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			return err
		}},
		// This call names no process. PTRACE_TRACEME would stop this
		// one at its next signal if it were not refused.
		{"a process was traced", false, refusedByFilter(unix.SYS_PTRACE, unix.PTRACE_DETACH)},
		{"mount was not refused", false, refusedByFilter(unix.SYS_MOUNT, 0)},
		{"bpf was not refused", false, refusedByFilter(unix.SYS_BPF, 0)},
		{"io_uring was not refused", false, refusedByFilter(unix.SYS_IO_URING_SETUP, 0)},
		{"a user namespace was not refused", false, refusedByFilter(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
	}
}

func (k check) connect() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrInet4{Port: k.Port, Addr: [4]byte{127, 0, 0, 1}})
}

// refusedByFilter makes a call. Any error but that of the filter counts as
// success, since it shows that the call reached the kernel.
func refusedByFilter(call, arg uintptr) func() error {
	return func() error {
		_, _, errno := unix.Syscall(call, arg, 0, 0)
		if errors.Is(errno, unix.EPERM) {
			return errno
		}
		return nil
	}
}
