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
	"syscall"

	"github.com/axebus/axe/subjects"
)

// Agent is the definition of an agent, as its file gives it.
type Agent struct {
	// a subjects.Agent, and the file's base name
	Name         string
	Description  string
	Model        string // provider/model
	SystemPrompt string
	// the path of a file, or of a directory with a SKILL.md, as FindSkill
	// found it; empty if there is none
	Skill   string
	Files   []string // globs below Workdir
	Workdir string   // empty: the process's current directory
	// the agents that this one may call
	SubAgents     []string
	SubAgentsConf SubAgentsConfig
	Delegation    Delegation
	Policy        Policy
	// of its run and everything below it, whoever calls it
	Budget      subjects.Budget
	Params      Params
	Memory      Memory
	Retry       Retry
	Supervision Supervision

	File   string // where the agent was read from
	Digest string // hex SHA-256 of the file's bytes
}

// SubAgentsConfig says how an agent's calls are carried out.
type SubAgentsConfig struct {
	MaxDepth int  // 0 stands for DefaultMaxDepth
	Parallel bool // true unless the file says otherwise
	// seconds for each call, 0: what is left of the caller's
	Timeout int
}

// Params are passed to the model; zero values leave the choice to its provider.
type Params struct {
	Temperature *float64
	MaxTokens   int
}

// Memory says what an agent remembers of its own runs.
type Memory struct {
	Enabled bool
	// of the agent's log, where logs are kept in files; empty: <name>.md in
	// memory/ below DataDir
	Path string
	// entries that a run is shown, 0: all
	LastN      int
	MaxEntries int // 0: no limit
}

// DefaultMaxDepth is the depth of a tree below its root when the root's file
// names none.
const DefaultMaxDepth = 3

const (
	// the most that a file may name
	maxDepth = 5
	maxFile  = 1 << 20 // bytes of one file
)

// MaxDepth is how deep below this agent a tree may grow when the agent is its
// root: never 0.
func (a Agent) MaxDepth() int { return cmp.Or(a.SubAgentsConf.MaxDepth, DefaultMaxDepth) }

// Load reads one agent. Its error is an *Error, whose cause is the file
// system's where that was at fault.
func Load(file string) (Agent, error) {
	b, err := read(file)
	if err != nil {
		return Agent{}, &Error{File: file, Message: withoutPath(err), cause: err}
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
		return Agent{}, doc.locate(err)
	}
	if err := resolve(&a, filepath.Dir(file)); err != nil {
		return Agent{}, doc.locate(err)
	}
	return a, nil
}

// resolve makes paths that can be opened of what a file in dir says.
func resolve(a *Agent, dir string) *Error {
	var err error
	if a.Skill, err = expandHome(a.Skill); err != nil {
		return invalid("skill", err.Error())
	}
	a.Skill = FindSkill(a.Skill, dir, filepath.Join(dir, ".."))
	for _, p := range []struct {
		key  string
		path *string
	}{{"workdir", &a.Workdir}, {"memory.path", &a.Memory.Path}} {
		if *p.path, err = expandHome(*p.path); err != nil {
			return invalid(p.key, err.Error())
		}
		if *p.path != "" && !filepath.IsAbs(*p.path) {
			*p.path = filepath.Join(dir, *p.path)
		}
	}
	return nil
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

		"delegation.style":     &a.Delegation.Styles,
		"delegation.max_batch": &a.Delegation.MaxBatch,
		"delegation.max_turns": &a.Delegation.MaxTurns,

		"policy.agents": &a.Policy.Agents,
		"policy.tools":  &a.Policy.Tools,

		"limits.max_agents": &a.Budget.Agents,
		"limits.max_turns":  &a.Budget.Turns,
		"limits.max_tokens": &a.Budget.Tokens,

		"params.temperature": &a.Params.Temperature,
		"params.max_tokens":  &a.Params.MaxTokens,

		"memory.enabled":     &a.Memory.Enabled,
		"memory.path":        &a.Memory.Path,
		"memory.last_n":      &a.Memory.LastN,
		"memory.max_entries": &a.Memory.MaxEntries,

		"retry.max_attempts": &a.Retry.MaxAttempts,
		"retry.backoff":      (*string)(&a.Retry.Backoff),
		"retry.initial":      (*duration)(&a.Retry.Initial),
		"retry.max":          (*duration)(&a.Retry.Max),

		"supervision.mode":       (*string)(&a.Supervision.Mode),
		"supervision.agent":      &a.Supervision.Agent,
		"supervision.timeout":    (*duration)(&a.Supervision.Timeout),
		"supervision.on_timeout": (*string)(&a.Supervision.OnTimeout),
	}
}

// read returns the bytes of a regular file of bounded size, and never blocks on
// one that is not regular.
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

// withoutPath is an error without the path that an Error already names.
func withoutPath(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
