package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestWriteFileKeepsLinks: a file is written through a symbolic link, and the
// link stays. After an error the file is as it was.
func TestWriteFileKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "1.md"), filepath.Join(dir, "latest.md")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("1.md", link); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, failed := range []error{nil, broken} {
		err := WriteFile(link, func(w io.Writer) error {
			written := "new"
			if failed != nil {
				written = "lost"
			}
			_, err := io.WriteString(w, written)
			return errors.Join(err, failed)
		})
		if !errors.Is(err, failed) {
			t.Errorf("got error %v, want %v", err, failed)
		}
		text, err := os.ReadFile(file)
		if string(text) != "new" || err != nil {
			t.Errorf("got %q, error %v, want new", text, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, error %v", info, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("the directory has %v, error %v, want two files", left, err)
	}
}
