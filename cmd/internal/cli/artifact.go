package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// ArtifactDir is the flag for the directory that gets the artifacts of a tree.
// The zero value is no directory.
type ArtifactDir string

// Register adds the flag to a command.
func (d *ArtifactDir) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(d), "artifact-dir", "",
		"directory for all artifacts of the tree, written when it ends; it is made if it does not exist")
}

// Save writes the artifacts of a tree into the directory, and returns failed,
// the error of the tree. If the tree has not failed, it returns the error of
// the writing. Otherwise it prints that. Without a directory it writes nothing.
func (d *ArtifactDir) Save(ctx context.Context, program string, t TreeClient, failed error) error {
	if *d == "" {
		return failed
	}
	n, err := saveArtifacts(ctx, t, string(*d))
	if n > 0 {
		fmt.Fprintf(os.Stderr, "%s: artifacts in %s: %d\n", program, *d, n)
	}
	if err == nil || failed == nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", program, Printable(err.Error()))
	return failed
}

// TreeClient is a client for one tree.
type TreeClient struct {
	*client.Client
	Tree subjects.Tree
}

// saveArtifacts writes all artifacts of a tree into a directory, and counts
// them. A file of the same name is replaced. It goes on after an artifact that
// cannot be written.
func saveArtifacts(ctx context.Context, t TreeClient, dir string) (n int, failed error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	all, err := t.Artifacts(ctx, t.Tree)
	if err != nil {
		return 0, err
	}
	for _, a := range all {
		// The name comes from a message, and another program may have
		// written that.
		err := run.CheckArtifactName(a.Name)
		if err == nil {
			err = writeWhole(root, a.Name, func(w io.Writer) error { return t.CopyArtifact(ctx, w, t.Tree, a.Name) })
		}
		if errors.Is(err, client.ErrUnknownArtifact) {
			err = errors.New("it is not stored any more")
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("artifact %q is not written: %w", a.Name, err))
			continue
		}
		n++
	}
	return n, failed
}

// WriteFile writes a file that fill makes, with mode 0600. A regular file is
// replaced as a whole: after an error it is as it was. A symbolic link to it
// stays.
func WriteFile(file string, fill func(io.Writer) error) error {
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() {
			f, err := os.OpenFile(file, os.O_WRONLY, 0) // a device or a pipe
			if err != nil {
				return err
			}
			return errors.Join(fill(f), f.Close())
		}
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer root.Close()
	return writeWhole(root, filepath.Base(file), fill)
}

// writeWhole writes a file in a directory, and puts it into its place when it
// is complete.
func writeWhole(root *os.Root, name string, fill func(io.Writer) error) error {
	temp := ".axe-" + bus.NewID()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(fill(f), f.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
	}
	return err
}
