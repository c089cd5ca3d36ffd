package prompt

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// Below is a directory below a workdir, which may be empty for the current one;
// "" is the workdir itself. What is not there, is no directory, or is elsewhere
// by way of a symbolic link, is an error.
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
