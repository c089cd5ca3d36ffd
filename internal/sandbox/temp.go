package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// temp is a directory for files that go with it. A lock on it says that its
// maker is alive: the kernel ends the lock with the process.
type temp struct {
	path string
	lock *os.File
}

// The names of such directories begin with tempPrefix or probePrefix, and end
// with tempEnd. Directories of earlier versions have no end, and no lock.
const (
	tempPrefix  = "axe-sandbox-"
	probePrefix = "axe-probe-"
	tempEnd     = ".d"
)

var errTemp = errors.New("make a temporary directory")

// errAbandoned says that another process was about to remove the directory.
var errAbandoned = errors.New("the directory was removed as it was made")

// makeTemp makes a directory below base, for its owner alone.
func makeTemp(base, name string) (temp, error) {
	for try := 1; ; try++ {
		t, err := tryTemp(base, name)
		if err == nil {
			return t, nil
		}
		// Between its making and its lock, the directory looked like
		// that of a dead process.
		if !errors.Is(err, errAbandoned) || try == 10 {
			return temp{}, fmt.Errorf("sandbox: %w: %w", errTemp, err)
		}
	}
}

func tryTemp(base, name string) (temp, error) {
	dir, err := os.MkdirTemp(base, name+"*"+tempEnd)
	if err != nil {
		return temp{}, err
	}
	lock, err := lockDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLocked) {
		return temp{}, errAbandoned
	}
	if err != nil {
		return temp{}, errors.Join(err, os.Remove(dir))
	}
	t := temp{dir, lock}
	if !t.exists() {
		_ = lock.Close()
		return temp{}, errAbandoned
	}
	return t, nil
}

// exists reports whether the path still names the directory that is locked.
func (t temp) exists() bool {
	locked, err := t.lock.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(t.path)
	return err == nil && os.SameFile(locked, named)
}

// remove removes the directory with everything in it.
func (t temp) remove() error {
	return errors.Join(removeTemp(t.path), t.lock.Close())
}

// removeAbandoned removes the directories below base that makers left which are
// dead: a process that is killed removes nothing. Those of other users, and
// those that cannot be removed, stay.
func removeAbandoned(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), tempEnd)
		ours = ours && (strings.HasPrefix(name, tempPrefix) || strings.HasPrefix(name, probePrefix))
		if !ours {
			continue
		}
		path := filepath.Join(base, e.Name())
		lock, err := lockDir(path)
		if err != nil {
			continue
		}
		if owned(lock) {
			_ = removeTemp(path)
		}
		_ = lock.Close()
	}
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
