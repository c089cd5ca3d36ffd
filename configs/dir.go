package configs

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LoadDir reads every agent in dir, sorted by name. It reads the files *.toml.
// It skips subdirectories, and hidden files, which editors and ConfigMaps leave
// behind. Its error joins one *Error for each invalid file. LoadDir returns the
// agents of the valid files with the error.
func LoadDir(dir string) ([]Agent, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	var agents []Agent
	var errs []error
	for _, file := range files {
		a, err := Load(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		agents = append(agents, a)
	}
	slices.SortFunc(agents, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents, errors.Join(errs...)
}

// list returns the paths of the files in dir that hold agents.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, &Error{File: dir, Message: withoutPath(err), cause: err}
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if filepath.Ext(name) == ".toml" && !strings.HasPrefix(name, ".") && !e.IsDir() {
			files = append(files, filepath.Join(dir, name))
		}
	}
	return files, nil
}

// NameOf returns the name of the agent that a file defines.
func NameOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".toml") }
