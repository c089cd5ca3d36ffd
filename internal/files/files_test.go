package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axebus/axe/internal/files"
)

func TestRead(t *testing.T) {
	const limit = 1 << 20
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	b, mode, err := files.Read(path, os.O_RDONLY, limit)
	if err != nil || string(b) != "text" || mode != 0o640 {
		t.Errorf("got %q, %o, %v", b, mode, err)
	}
	if err := os.Truncate(path, limit); err != nil {
		t.Fatal(err)
	}
	if b, _, err := files.Read(path, os.O_RDWR, limit); err != nil || len(b) != limit {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
	if err := os.Truncate(path, limit+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := files.Read(path, os.O_RDONLY, limit); !isPathError(err, path+": is larger than 1 MiB") {
		t.Errorf("a large file: %v", err)
	}
	_, _, err = files.Read(dir, os.O_RDONLY, limit)
	if !errors.Is(err, files.ErrNotRegular) || !isPathError(err, dir) {
		t.Errorf("a directory: %v", err)
	}
	if _, _, err := files.Read(filepath.Join(dir, "b"), os.O_RDONLY, limit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func isPathError(err error, text string) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok && strings.Contains(err.Error(), text)
}
