package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestFinishCleansUp: a tenant that cannot be put into the file of tenants
// leaves neither that file nor its directory. The name is free again.
func TestFinishCleansUp(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	next, file, dir := filepath.Join(at, "next"), filepath.Join(at, "file"), filepath.Join(at, "acme")
	// A file takes the place of no directory.
	for _, d := range []string{file, filepath.Join(dir, "keys")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(next, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := finish(next, file, dir); err == nil {
		t.Error("a file has taken the place of a directory")
	}
	for _, left := range []string{next, dir} {
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left, error %v", left, err)
		}
	}
}
