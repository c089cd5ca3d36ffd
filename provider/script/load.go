package script

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/axebus/axe/provider"
)

// maxFile bounds the bytes of one file.
const maxFile = 1 << 20

// Load reads the script dir/name.toml. It reads the file each time. Its error
// is a *provider.Error of the category bad_request, which names the file, the
// line and the key.
func Load(dir, name string) (*Script, error) {
	s, err := load(dir, name)
	if err != nil {
		return nil, &provider.Error{
			Category: provider.BadRequest,
			Message:  "script " + name + ": " + err.Error(),
			Err:      err,
		}
	}
	return s, nil
}

var errNoDirectory = errors.New("no scripts directory is set: " +
	"models script/… are read from the directory scripts inside the directory of the agents")

func load(dir, name string) (*Script, error) {
	if name == "" || strings.ContainsFunc(name, notInName) {
		return nil, fmt.Errorf("the name %q is malformed: it must have only a-z, 0-9, _ and -", name)
	}
	if dir == "" {
		return nil, errNoDirectory
	}
	file := filepath.Join(dir, name+".toml")
	b, err := read(file)
	if err != nil {
		return nil, err
	}
	entries, err := parse(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return &Script{name: name, entries: entries}, nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// read returns the bytes of a regular file of bounded size. It does not block
// on a pipe or a device.
func read(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: file, Err: errors.New("is not a regular file")}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d KiB", file, maxFile>>10)
	}
	return b, err
}
