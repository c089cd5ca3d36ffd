package prompt

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBelow: the directory of a run is its workdir or a directory below it,
// also through a symbolic link that stays there. Anything else is an error.
func TestBelow(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a/b"), 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink("a", filepath.Join(dir, "in")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for cwd, want := range map[string]string{
		"": dir, ".": dir, "a/b": filepath.Join(dir, "a/b"), "in/b": filepath.Join(dir, "in/b"),
	} {
		if got, err := Below(dir, cwd); got != want || err != nil {
			t.Errorf("%q gives %q, error %v, want %q", cwd, got, err, want)
		}
	}
	for _, cwd := range []string{"nosuch", "file", "out", "../x", "/", "a/../.."} {
		if got, err := Below(dir, cwd); err == nil {
			t.Errorf("%q gives %q, want an error", cwd, got)
		}
	}
	t.Chdir(dir)
	if got, err := Below("", "a"); got != "a" || err != nil {
		t.Errorf("in the current directory a gives %q, error %v, want a", got, err)
	}
}
