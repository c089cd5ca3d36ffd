//go:build unix

package prompt

import (
	"io/fs"
	"syscall"
)

// links returns the number of a file's hard links.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink) //nolint:unconvert // fewer bits on some systems
	}
	return 1
}
