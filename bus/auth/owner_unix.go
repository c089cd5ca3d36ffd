//go:build unix

package auth

import (
	"io/fs"
	"os"
	"syscall"
)

// giveTo gives a file the owner and the group of another one.
func giveTo(f *os.File, like fs.FileInfo) error {
	if s, ok := like.Sys().(*syscall.Stat_t); ok {
		return f.Chown(int(s.Uid), int(s.Gid))
	}
	return nil
}
