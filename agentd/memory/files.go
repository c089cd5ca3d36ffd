package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/axebus/axe/internal/files"
	"github.com/axebus/axe/subjects"
)

// Files keeps each agent's log in a file: the agent's own path, or
// <Dir>/<agent>.md.
//
// A writer replaces the whole file. It writes <file>.tmp, syncs that file to
// disk and renames it, so that a writer that dies leaves the log as it was.
// Writers take turns by an advisory lock on <file>.lock. The operating system
// releases the lock when its holder dies; the lock file stays. A writer
// replaces the target of a symbolic link and keeps the link.
type Files struct{ Dir string }

const (
	// maxFile bounds the bytes of one file.
	maxFile = 64 << 20
	// lockRetryDelay is the pause between two attempts to take a lock that
	// another writer holds.
	lockRetryDelay = 5 * time.Millisecond
)

// Open returns the log of an agent. It reads and writes no file.
func (f Files) Open(agent subjects.Agent, path string) Log {
	return file(cmp.Or(path, filepath.Join(f.Dir, agent.String()+".md")))
}

// file is the path of a log.
type file string

func (f file) String() string { return string(f) }

func (f file) Read(ctx context.Context) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", fmt.Errorf("memory %s: %w", f, err)
	}
	text, _, err := load(string(f), os.O_RDONLY)
	return text, err
}

func (f file) Append(ctx context.Context, e Entry) error {
	return f.update(ctx, func(text string) string { return joined(text, e.String()) })
}

func (f file) Trim(ctx context.Context, keep int) (removed int, err error) {
	if ok, err := mayTrim(keep); !ok {
		return 0, err
	}
	text, err := f.Read(ctx)
	if err != nil || Count(text) <= keep {
		// No lock is needed, nor the directory for one.
		return 0, err
	}
	err = f.update(ctx, func(text string) string {
		text, removed = withoutOldest(text, keep)
		return text
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// update replaces the file's text by change(text), under the file's lock.
func (f file) update(ctx context.Context, change func(text string) string) error {
	if info, err := os.Stat(string(f)); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("memory %s: %w", f, files.ErrNotRegular)
	}
	path, err := resolveLinks(string(f))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetryDelay); err != nil {
		return fmt.Errorf("memory %s: lock: %w", f, cmp.Or(context.Cause(ctx), err))
	}
	defer func() { _ = lock.Unlock() }()
	old, mode, err := load(path, os.O_RDWR)
	if err != nil {
		return err
	}
	text := change(old)
	switch {
	case text == old:
		return nil
	case len(text) > maxFile:
		return fmt.Errorf("memory %s: another entry would make it larger than %d MiB", f, maxFile>>20)
	}
	return replace(path, text, mode)
}

// resolveLinks returns the path behind a chain of symbolic links. The target
// need not exist.
func resolveLinks(path string) (string, error) {
	for range 40 {
		to, _ := os.Readlink(path)
		if to == "" { // not a link
			return path, nil
		}
		if !filepath.IsAbs(to) {
			// Not filepath.Join or filepath.Dir: they would resolve
			// .. without looking at links.
			dir, _ := filepath.Split(path)
			to = dir + to
		}
		path = to
	}
	return "", fmt.Errorf("memory %s: %w", path, syscall.ELOOP)
}

// load opens a file with flag and returns its text and mode, or "" and 0 if the
// file does not exist.
func load(path string, flag int) (text string, mode fs.FileMode, err error) {
	b, mode, err := files.Read(path, flag, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("memory: %w", err)
	}
	return string(b), mode, nil
}

// replace makes a file with that text in one step. A mode of 0 is the default
// for new files. The caller holds the lock.
//
// The temporary file has a fixed name, so that the next writer removes the one
// that a killed writer left. The module github.com/google/renameio picks random
// names, which would pile up, and does not build for Windows.
func replace(path, text string, mode fs.FileMode) error {
	temp := path + ".tmp"
	_ = os.Remove(temp) // left by a killed writer
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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
