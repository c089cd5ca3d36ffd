package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// find returns the path of a program, by the PATH in c.Env without its relative
// entries. A name with a slash is a path, relative to c.Dir.
func find(name string, c Config) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.Dir, name)
		}
		return name, nil
	}
	var path string
	for _, e := range c.Env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			path = p
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %q is not in the PATH %q", name, path)
}
