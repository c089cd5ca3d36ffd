package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0
)

func archRefused() []uint32 { return nil }

// openFlags returns the calls that open a file, with the argument that has the
// flags.
func openFlags() map[uint32]uint32 { return map[uint32]uint32{unix.SYS_OPENAT: 2} }
