package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/axebus/axe/internal/files"
)

// maxFile bounds the bytes of a file that a tool reads.
const maxFile = 16 << 20

// The errors about a path that is not below the working directory.
var (
	errAbsolute = errors.New("absolute paths are not allowed")
	errEscapes  = errors.New("path escapes workdir")
)

// inRoot opens the working directory, and calls use with it and the checked
// path of the argument "path". It refuses the argument "artifact": the agent
// has no artifact directory.
func inRoot(c Call, use func(root *os.Root, name string) (string, error)) (string, error) {
	name := c.Arguments["path"]
	switch {
	case strings.EqualFold(c.Arguments["artifact"], "true"):
		return "", errors.New("artifact directory not configured for this agent")
	case name == "":
		return "", errors.New("path is required")
	}
	return below(c.Dir, name, use)
}

// below opens a directory, and calls use with it and the checked path of a name
// below it.
func below(dir, name string, use func(root *os.Root, name string) (string, error)) (string, error) {
	if filepath.IsAbs(name) {
		return "", errAbsolute
	}
	if name = path.Clean(filepath.ToSlash(name)); name == ".." || strings.HasPrefix(name, "../") {
		return "", errEscapes
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("workdir: %w", bare(err))
	}
	defer root.Close()
	text, err := use(root, name)
	return text, bare(err)
}

// bare returns an error without the operation and the path, which the model
// knows.
func bare(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		if e, ok := errors.AsType[*os.LinkError](err); ok {
			return e.Err
		}
		return err
	}
	if strings.Contains(e.Err.Error(), "path escapes from parent") {
		return errEscapes
	}
	return e.Err
}

// content reads a regular file of text.
func content(root *os.Root, name string) ([]byte, fs.FileMode, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case info.IsDir():
		return nil, 0, errors.New("path is a directory, not a file")
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("path %w", files.ErrNotRegular)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, 0, err
	case len(b) > maxFile:
		return nil, 0, fmt.Errorf("file is larger than %d MiB", maxFile>>20)
	case bytes.IndexByte(b[:min(len(b), 512)], 0) >= 0:
		return nil, 0, errors.New("binary file detected")
	}
	return b, info.Mode().Perm(), nil
}

// maxLinks bounds the symbolic links that lead to the file that is replaced.
const maxLinks = 40

// replacement is the new content of a file. The key is that of the call.
type replacement struct {
	key  string
	b    []byte
	mode fs.FileMode
}

// write puts the content in the place of the file with a name: a reader sees
// the old content or the new, never a part. A symbolic link stays, and the file
// that it names is replaced. A hard link ends: the other names keep the old
// content.
func (r replacement) write(root *os.Root, name string) error {
	for range maxLinks {
		to, err := root.Readlink(name)
		if err != nil {
			break // it is no link
		}
		if filepath.IsAbs(to) {
			return errEscapes
		}
		// Not path.Join: it would resolve .. without looking at links.
		dir, _ := path.Split(name)
		name = dir + to
	}
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("path %w", files.ErrNotRegular)
	}
	dir, _ := path.Split(name)
	temp := dir + fmt.Sprintf(".axe-%.16s", digest([]byte(r.key+name)))
	// An attempt of a worker that died may have left it.
	_ = root.Remove(temp)
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, r.mode)
	if err != nil {
		return err
	}
	_, err = f.Write(r.b)
	err = errors.Join(err, f.Chmod(r.mode), f.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
	}
	return err
}

// inArtifacts describes the parameter artifact of a tool.
func inArtifacts(doing string) string {
	return fmt.Sprintf(`When "true", %s the artifact directory instead of the working directory.`, doing)
}
