//go:build linux && !amd64 && !arm64

package sandbox

// There is no filter for this architecture: auditArch is 0.
const (
	auditArch = 0
	x32Bit    = 0
)

func refusedCalls() []uint32 { return nil }

func openFlags() map[uint32]uint32 { return nil }
