package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// source reads files of bounded size.
type source struct {
	stat func(name string) (fs.FileInfo, error)
	open func(name string, flag int, perm fs.FileMode) (*os.File, error)
	// limit is the most bytes of one file.
	limit int64
	// check returns an error for a file that must not be read.
	check func(fs.FileInfo) error
}

// read returns the bytes of a file, or the first limit+1 bytes of a large
// binary one. It checks before it opens, because opening a device may have an
// effect. It opens without blocking and checks again, because a pipe may have
// replaced the file.
func (s source) read(name string) ([]byte, error) {
	info, err := s.stat(name)
	if err != nil {
		return nil, bare(err)
	}
	if err := s.check(info); err != nil {
		return nil, err
	}
	f, err := s.open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, bare(err)
	}
	if err := s.check(info); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, s.limit+1))
	if err != nil {
		return nil, bare(err)
	}
	if int64(len(b)) > s.limit && !binary(b) {
		return nil, fmt.Errorf("is larger than %d MiB", s.limit>>20)
	}
	return b, nil
}

// checkRegular accepts regular files. It is the check for a path that an
// operator names.
func checkRegular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	return nil
}

// checkUnlinked accepts regular files that have no other hard link. It is the
// check for files below a workdir.
func checkUnlinked(info fs.FileInfo) error {
	if err := checkRegular(info); err != nil {
		return err
	}
	if links(info) > 1 {
		return errors.New("has another name (a hard link), which may be outside of the workdir")
	}
	return nil
}

// bare returns an error without its operation and path. The caller adds its
// own.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// binary reports whether b has a NUL byte in its first 8 KiB. Text does not.
func binary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8<<10)], 0) >= 0 }

// validUTF8 returns b as a string with U+FFFD for invalid bytes. A message can
// carry only valid UTF-8.
func validUTF8(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
