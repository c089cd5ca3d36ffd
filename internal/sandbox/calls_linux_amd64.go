package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // calls of the x32 ABI
)

func archRefused() []uint32 {
	return []uint32{
		unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
		unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
	}
}

// openFlags returns the calls that open a file, with the argument that has the
// flags.
func openFlags() map[uint32]uint32 { return map[uint32]uint32{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2} }
