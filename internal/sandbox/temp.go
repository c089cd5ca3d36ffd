package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// makeTemp makes a TMPDIR below base, for its owner alone.
func makeTemp(base string) (string, error) {
	dir, err := os.MkdirTemp(base, "axe-sandbox-")
	if err != nil {
		return "", fmt.Errorf("sandbox: make TMPDIR: %w", err)
	}
	return dir, nil
}

// removeTemp removes a TMPDIR with everything in it. A program may have taken
// its own rights to directories away, so they are given back first.
func removeTemp(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	if err := openUp(dir); err != nil {
		return fmt.Errorf("sandbox: remove TMPDIR: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("sandbox: remove TMPDIR: %w", err)
	}
	return nil
}

// openUp makes every directory below dir readable and writable to its owner. It
// follows no link out of dir.
func openUp(dir string) error {
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = openUpBelow(root, ".")
	return errors.Join(err, root.Close())
}

func openUpBelow(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	err = errors.Join(err, f.Close())
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := dir + "/" + e.Name()
		e := root.Chmod(path, 0o700)
		if errors.Is(e, fs.ErrNotExist) {
			continue
		}
		err = errors.Join(err, e, openUpBelow(root, path))
	}
	return err
}
