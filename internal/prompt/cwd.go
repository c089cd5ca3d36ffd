package prompt

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// Below returns the path of the directory cwd below a workdir. An empty workdir
// stands for the current directory, and an empty cwd for the workdir itself. It
// is an error if cwd does not exist, is not a directory, or leads out of the
// workdir through a symbolic link.
func Below(workdir, cwd string) (string, error) {
	if cwd == "" {
		return workdir, nil
	}
	root, err := os.OpenRoot(cmp.Or(workdir, "."))
	if err != nil {
		return "", fmt.Errorf("workdir %s: %w", workdir, bare(err))
	}
	defer root.Close()
	info, err := root.Stat(cwd)
	switch {
	case err != nil:
		return "", fmt.Errorf("cwd %q: %w", cwd, bare(err))
	case !info.IsDir():
		return "", fmt.Errorf("cwd %q is not a directory", cwd)
	}
	return filepath.Join(workdir, cwd), nil
}
