package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/axebus/axe/subjects"
)

// Files keeps each agent's log in a file: the agent's own path, or
// <Dir>/<agent>.md.
//
// A file is replaced as a whole, by one that was written beside it (<file>.tmp)
// and is on the disk, so that a writer that dies leaves it as it was. Writers
// take turns by an advisory lock on <file>.lock, which stays; it is the
// operating system's, and goes with the process that holds it. A symbolic link
// stays one, and what it leads to is replaced.
type Files struct{ Dir string }

const (
	maxFile = 64 << 20 // bytes that are read of one
	// how often a lock is asked for that somebody else has
	again = 5 * time.Millisecond
)

var errNotRegular = errors.New("is not a regular file")

// Open returns the log of an agent. It touches nothing yet.
func (f Files) Open(agent subjects.Agent, path string) Log {
	return file(cmp.Or(path, filepath.Join(f.Dir, agent.String()+".md")))
}

// file is the path of a log.
type file string

func (f file) String() string { return string(f) }

func (f file) Read(ctx context.Context) (string, error) {
	if err := because(ctx); err != nil {
		return "", fmt.Errorf("memory %s: %w", f, err)
	}
	text, _, err := load(string(f), os.O_RDONLY)
	return text, err
}

func (f file) Append(ctx context.Context, e Entry) error {
	return f.update(ctx, func(text string) string { return joined(text, e.String()) })
}

func (f file) Trim(ctx context.Context, keep int) (removed int, err error) {
	if ok, err := worthTrimming(keep); !ok {
		return 0, err
	}
	text, err := f.Read(ctx)
	if err != nil || Count(text) <= keep {
		// without a lock, and the directory for it
		return 0, err
	}
	err = f.update(ctx, func(text string) string {
		text, removed = without(text, keep)
		return text
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// update replaces the file's text by what change makes of it, while nobody else
// does the same.
func (f file) update(ctx context.Context, change func(text string) string) error {
	if info, err := os.Stat(string(f)); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("memory %s: %w", f, errNotRegular)
	}
	path, err := follow(string(f))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, again); err != nil {
		return fmt.Errorf("memory %s: lock: %w", f, cmp.Or(because(ctx), err))
	}
	defer func() { _ = lock.Unlock() }()
	old, mode, err := load(path, os.O_RDWR)
	if err != nil {
		return err
	}
	if text := change(old); text != old {
		return replace(path, text, mode)
	}
	return nil
}

// follow is where a path leads if it is a symbolic link, to something that need
// not be there yet.
func follow(path string) (string, error) {
	for range 40 {
		to, _ := os.Readlink(path)
		if to == "" { // no link
			return path, nil
		}
		if !filepath.IsAbs(to) {
			// as it stands: .. is what the system says it is
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		path = to
	}
	return "", fmt.Errorf("memory %s: %w", path, syscall.ELOOP)
}

// load reads a file that flag allows to be opened, and its mode: nothing and 0
// if there is none. It waits for no pipe and no device.
func load(path string, flag int) (text string, mode fs.FileMode, err error) {
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("memory: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return "", 0, fmt.Errorf("memory %s: %w", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("is larger than %d MiB", maxFile>>20)
	}
	if err != nil {
		return "", 0, fmt.Errorf("memory %s: %w", path, err)
	}
	return string(b), info.Mode().Perm(), nil
}

// replace makes a file of that text and mode, or of the one for new files, in
// one step. Its caller has the lock.
func replace(path, text string, mode fs.FileMode) error {
	temp := path + ".tmp"
	_ = os.Remove(temp) // of a writer that was killed
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	_, err = f.WriteString(text)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}
