//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bus

import "os"

// lock takes nothing: without flock, two servers on one store are the operator's to avoid.
func lock(*os.File) error { return nil }
