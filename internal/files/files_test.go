package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/axebus/axe/internal/files"
)

// TestRead: Read returns a file up to the limit. It refuses a larger one and
// anything but a file, and does not wait for the writer of a pipe.
func TestRead(t *testing.T) {
	const limit = 1 << 20
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	b, mode, err := files.Read(path, os.O_RDONLY, limit)
	if err != nil || string(b) != "text" || mode != 0o640 {
		t.Errorf("got %q, mode %o, error %v, want text, mode 640", b, mode, err)
	}
	if err := os.Truncate(path, limit); err != nil {
		t.Fatal(err)
	}
	if b, _, err := files.Read(path, os.O_RDWR, limit); err != nil || len(b) != limit {
		t.Errorf("a file at the limit: got %d bytes, error %v, want %d bytes", len(b), err, limit)
	}
	if err := os.Truncate(path, limit+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := files.Read(path, os.O_RDONLY, limit); !isPathError(err, path+": is larger than 1 MiB") {
		t.Errorf("a file above the limit: error %v, want that it is larger than 1 MiB", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe} {
		_, _, err = files.Read(path, os.O_RDONLY, limit)
		if !errors.Is(err, files.ErrNotRegular) || !isPathError(err, path) {
			t.Errorf("%s: error %v, want a PathError that wraps %v", path, err, files.ErrNotRegular)
		}
	}
	if _, _, err := files.Read(filepath.Join(dir, "b"), os.O_RDONLY, limit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: error %v, want %v", err, fs.ErrNotExist)
	}
}

// isPathError reports whether an error is an *fs.PathError with a text in it.
func isPathError(err error, text string) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok && strings.Contains(err.Error(), text)
}
