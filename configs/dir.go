package configs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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
	agents, _, err := loadDir(dir)
	return agents, err
}

// loadDir is LoadDir. It also returns the skills of the agents that may move.
func loadDir(dir string) (agents []Agent, skills []skill, _ error) {
	files, err := list(dir)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, file := range files {
		a, s, err := load(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		agents = append(agents, a)
		if len(s.places) > 1 {
			skills = append(skills, s)
		}
	}
	slices.SortFunc(agents, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents, skills, errors.Join(errs...)
}

// Definitions are the agents of a directory and the toolsets that belong to it.
type Definitions struct {
	Agents   []Agent
	Toolsets []Toolset
}

// LoadAll reads the agents in dir and the toolsets in ToolsetDir(dir), each
// sorted by name. Its error joins one *Error for each invalid file, and for
// each toolset that has the name of an agent. LoadAll returns the valid
// definitions with the error. A directory of toolsets need not exist.
func LoadAll(dir string) (Definitions, error) {
	d, _, err := loadAll(dir)
	return d, err
}

// loadAll is LoadAll. It also returns the skills of the agents that may move.
func loadAll(dir string) (d Definitions, skills []skill, _ error) {
	agents, skills, err := loadDir(dir)
	d.Agents = agents
	files, listErr := listToolsets(dir)
	errs := []error{err, listErr}
	for _, file := range files {
		t, err := LoadToolset(file)
		if err == nil && slices.ContainsFunc(agents, func(a Agent) bool { return a.Name == t.Name }) {
			err = &Error{
				File:    file,
				Message: fmt.Sprintf("an agent is named %q too: a name is an agent or a toolset", t.Name),
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d.Toolsets = append(d.Toolsets, t)
	}
	return d, skills, errors.Join(errs...)
}

// listToolsets returns the paths of the files that hold the toolsets of a
// directory of agents.
func listToolsets(agents string) ([]string, error) {
	files, err := list(ToolsetDir(agents))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}

// list returns the paths of the files in dir that hold definitions.
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
