package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, on a little-endian machine.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	allow  = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

const ioprioProcess = 1 // IOPRIO_WHO_PROCESS

// namespaceFlags are the flags of clone and unshare that make a namespace.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter is a BPF program that decides on each system call of a sandbox.
type filter []unix.SockFilter

// newFilter returns the filter. It refuses with an error and kills no process,
// so that programs can do without a call. A version of Landlock below 3 does
// not know of truncation, so the filter refuses it for files that are not open.
func newFilter(network bool, abi int) filter {
	var f filter
	f.load(offArch)
	f.unless(unix.BPF_JEQ, auditArch, refuse)
	f.load(offNumber)
	if x32Bit != 0 {
		f.when(unix.BPF_JGE, x32Bit, refuse)
	}
	for _, nr := range refusedCalls() {
		f.when(unix.BPF_JEQ, nr, refuse)
	}
	f.when(unix.BPF_JEQ, unix.SYS_CLONE3, absent) // libc goes on with clone
	f.arguments()
	f.sockets(network)
	if abi < 3 {
		f.truncation()
	}
	f.give(allow)
	return f
}

// arguments adds the calls that are refused with some arguments. Without the
// rules about processes, a program could stop the worker: it has the same user.
func (f *filter) arguments() {
	f.on(unix.SYS_CLONE, func() { f.argHas(0, namespaceFlags) })
	f.on(unix.SYS_UNSHARE, func() { f.argHas(0, namespaceFlags|unix.CLONE_NEWTIME) })
	f.on(unix.SYS_IOCTL, func() {
		f.argIs(1, unix.TIOCSTI) // types into a terminal
		f.argIs(1, unix.TIOCLINUX)
	})
	for _, nr := range []uint32{
		unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
		unix.SYS_SCHED_SETAFFINITY,
	} {
		f.on(nr, func() { f.argIsNot(0, 0) }) // another process
	}
	f.on(unix.SYS_SETPRIORITY, func() {
		f.argIsNot(0, unix.PRIO_PROCESS)
		f.argIsNot(1, 0)
	})
	f.on(unix.SYS_IOPRIO_SET, func() {
		f.argIsNot(0, ioprioProcess)
		f.argIsNot(1, 0)
	})
}

// sockets adds the calls that make sockets. Sockets of the Unix family would
// reach services of the machine, such as Docker's, so only pairs are allowed.
func (f *filter) sockets(network bool) {
	f.on(unix.SYS_SOCKETPAIR, func() { f.argIsNot(0, unix.AF_UNIX) })
	if !network {
		f.when(unix.BPF_JEQ, unix.SYS_SOCKET, refuse)
		return
	}
	f.on(unix.SYS_SOCKET, func() {
		f.loadArg(0)
		f.jumpOver(unix.BPF_JEQ, unix.AF_NETLINK, func() {
			f.argIsNot(2, unix.NETLINK_ROUTE) // asked for addresses by libc
			f.give(allow)
		})
		f.jumpUnlessInternet()
		f.loadArg(1)
		f.and(0xf) // without SOCK_CLOEXEC and SOCK_NONBLOCK
		f.when(unix.BPF_JEQ, unix.SOCK_STREAM, allow)
		f.unless(unix.BPF_JEQ, unix.SOCK_DGRAM, refuse)
	})
}

// truncation refuses to truncate by path, and to truncate while opening for
// reading.
func (f *filter) truncation() {
	f.when(unix.BPF_JEQ, unix.SYS_TRUNCATE, refuse)
	f.when(unix.BPF_JEQ, unix.SYS_OPENAT2, absent) // its flags are in memory
	for nr, arg := range openFlags() {
		f.on(nr, func() {
			f.loadArg(arg)
			f.and(unix.O_ACCMODE | unix.O_TRUNC)
			f.when(unix.BPF_JEQ, unix.O_RDONLY|unix.O_TRUNC, refuse)
		})
	}
}

// installFilter puts the filter on this thread.
func installFilter(network bool, abi int) error {
	if auditArch == 0 {
		return errors.New("there is no seccomp filter for " + runtime.GOARCH)
	}
	f := newFilter(network, abi)
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return fmt.Errorf("install the seccomp filter: %w", errno)
	}
	return nil
}
