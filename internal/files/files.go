// Package files reads files that a person names. The path may lead to anything:
// a pipe, a device, a file of any size. Read refuses them instead of blocking
// or filling the memory.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is the error for a directory, a pipe or a device.
var ErrNotRegular = errors.New("is not a regular file")

// Read opens a regular file with flag, for example os.O_RDONLY. It returns the
// content and the permissions. Limit is the most bytes that the file may have,
// a multiple of 1 MiB. The error is an *fs.PathError.
func Read(path string, flag int, limit int64) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("is larger than %d MiB", limit>>20)}
	}
	if err != nil {
		return nil, 0, err
	}
	return b, info.Mode().Perm(), nil
}
