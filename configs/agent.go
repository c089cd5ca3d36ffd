package configs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Agent is the definition of an agent, as its file gives it.
type Agent struct {
	Name          string // a subjects.Agent, and the file's base name
	Description   string
	Model         string // provider/model
	SystemPrompt  string
	Skill         string   // the path of a file, or of a directory with a SKILL.md; empty if there is none
	Files         []string // globs below Workdir
	Workdir       string   // empty: the process's current directory
	SubAgents     []string // the agents that this one may call
	SubAgentsConf SubAgentsConfig
	Params        Params
	Memory        Memory

	File   string // where the agent was read from
	Digest string // hex SHA-256 of the file's bytes
}

// SubAgentsConfig says how an agent's calls are carried out.
type SubAgentsConfig struct {
	MaxDepth int  // 0 stands for DefaultMaxDepth
	Parallel bool // true unless the file says otherwise
	Timeout  int  // seconds for each call, 0: what is left of the caller's
}

// Params are passed to the model; zero values leave the choice to its provider.
type Params struct {
	Temperature *float64
	MaxTokens   int
}

// Memory is checked and carried, but not used yet.
type Memory struct {
	Enabled    bool
	Path       string
	LastN      int
	MaxEntries int
}

// DefaultMaxDepth is the depth of a tree below its root when the root's file names none.
const DefaultMaxDepth = 3

const (
	maxDepth = 5       // the most that a file may name
	maxFile  = 1 << 20 // bytes of one file
)

// MaxDepth is how deep below this agent a tree may grow when the agent is its root: never 0.
func (a Agent) MaxDepth() int { return cmp.Or(a.SubAgentsConf.MaxDepth, DefaultMaxDepth) }

// Load reads one agent. Its error is an *Error, whose cause is the file system's where that was at fault.
func Load(file string) (Agent, error) {
	b, err := read(file)
	if err != nil {
		return Agent{}, &Error{File: file, Message: reason(err), cause: err}
	}
	return parse(file, b)
}

// parse makes an agent of a file's bytes.
func parse(file string, b []byte) (Agent, error) {
	sum := sha256.Sum256(b)
	a := Agent{File: file, Digest: hex.EncodeToString(sum[:]), SubAgentsConf: SubAgentsConfig{Parallel: true}}
	doc, err := newDocument(file, string(b))
	if err != nil {
		return Agent{}, err
	}
	if err := doc.decode(fields(&a)); err != nil {
		return Agent{}, err
	}
	if err := validate(a); err != nil {
		return Agent{}, doc.place(err)
	}
	if a.Skill, err = resolve(file, a.Skill); err != nil {
		return Agent{}, doc.place(invalid("skill", err.Error()))
	}
	if a.Workdir, err = resolve(file, a.Workdir); err != nil {
		return Agent{}, doc.place(invalid("workdir", err.Error()))
	}
	return a, nil
}

// fields maps every key of the format to where its value goes.
func fields(a *Agent) map[string]any {
	return map[string]any{
		"name":          &a.Name,
		"description":   &a.Description,
		"model":         &a.Model,
		"system_prompt": &a.SystemPrompt,
		"skill":         &a.Skill,
		"files":         &a.Files,
		"workdir":       &a.Workdir,
		"sub_agents":    &a.SubAgents,

		"sub_agents_config.max_depth": &a.SubAgentsConf.MaxDepth,
		"sub_agents_config.parallel":  &a.SubAgentsConf.Parallel,
		"sub_agents_config.timeout":   &a.SubAgentsConf.Timeout,

		"params.temperature": &a.Params.Temperature,
		"params.max_tokens":  &a.Params.MaxTokens,

		"memory.enabled":     &a.Memory.Enabled,
		"memory.path":        &a.Memory.Path,
		"memory.last_n":      &a.Memory.LastN,
		"memory.max_entries": &a.Memory.MaxEntries,
	}
}

// resolve makes a path out of a file's value: relative to the file's directory, or below the home directory.
func resolve(file, path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	return filepath.Join(filepath.Dir(file), path), nil
}

// read returns the bytes of a regular file of bounded size, and never blocks on one that is not regular.
func read(file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(b) > maxFile {
		return nil, fmt.Errorf("is larger than %d KiB", maxFile>>10)
	}
	return b, err
}

// reason is an error without the path that an Error already names.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
