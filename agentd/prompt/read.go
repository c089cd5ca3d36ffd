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
	"unicode/utf8"
)

var (
	errNotRegular = errors.New("is not a regular file")
	errLinked     = errors.New("has another name (a hard link), which may be outside of the workdir")
)

type (
	statFunc func(name string) (fs.FileInfo, error)
	openFunc func(name string, flag int, perm fs.FileMode) (*os.File, error)
)

// read returns the bytes of a file that is fit to be read. It looks before it
// opens, because opening a device can do things, opens without waiting, because
// a pipe may have taken the file's place, and looks again.
func read(stat statFunc, open openFunc, name string, limit int64, fit func(fs.FileInfo) error) ([]byte, error) {
	info, err := stat(name)
	if err != nil {
		return nil, bare(err)
	}
	if err := fit(info); err != nil {
		return nil, err
	}
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, bare(err)
	}
	if err := fit(info); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, bare(err)
	}
	if int64(len(b)) > limit && !binary(b) {
		return nil, fmt.Errorf("is larger than %d MiB", limit>>20)
	}
	return b, nil
}

// regular is fit for what its operator names by its path.
func regular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errNotRegular
	}
	return nil
}

// inside is fit for what is found below a workdir: a regular file that is
// nowhere else.
func inside(info fs.FileInfo) error {
	if err := regular(info); err != nil {
		return err
	}
	if links(info) > 1 {
		return errLinked
	}
	return nil
}

// bare is an error without the operation and the path, which its reader adds in
// its own words.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// binary reports whether b looks like no text: a NUL byte in its first 8 KiB.
func binary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8<<10)], 0) >= 0 }

// text is b as valid UTF-8, which is all that a message can carry.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
