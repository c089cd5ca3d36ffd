package configs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/axebus/axe/internal/files"
	"github.com/axebus/axe/subjects"
)

// Agent is the definition of an agent, read from its file.
type Agent struct {
	// Name is a valid subjects.Agent, and the file's base name.
	Name string
	// Description tells callers about the agent.
	Description string
	// Model has the form provider/model.
	Model        string
	SystemPrompt string
	// Skill is the path of a file, or of a directory with a SKILL.md, as
	// FindSkill returns it. An agent without a skill has "".
	Skill string
	// Files are globs below Workdir.
	Files []string
	// Workdir is the directory of the context files. Empty stands for the
	// current directory of the process. In the file it may have variables
	// of the environment, as $HOME or ${HOME}.
	Workdir string
	// Tools are the tools that the agent may use: names of built-in tools,
	// and globs of tools of toolsets (OfToolset).
	Tools []string
	// ToolConf has the settings of tools, by name. A tool without any is
	// not in it.
	ToolConf map[string]ToolConfig
	// Servers are MCP servers for this agent alone.
	Servers []Toolset
	// Approve are the tools that a person approves before they are used.
	Approve []string
	// Approvers are the users of which a decision about a held turn, or
	// about a held call of a tool, counts.
	// Without any, the decision of each person counts.
	Approvers subjects.Approvers
	// AllowedHosts are the hosts that url_fetch may ask. An empty list
	// allows every public host.
	AllowedHosts []string
	// Sandbox says what the commands of the agent may do.
	Sandbox Sandbox
	// SubAgents are the agents that this agent may call.
	SubAgents     []string
	SubAgentsConf SubAgentsConfig
	Delegation    Delegation
	Policy        Policy
	// Timeout bounds a tree with the agent as its root, in seconds, unless
	// the submission names a time. With 0 a tree has the time that its
	// worker allows. A worker allows no longer time than its own bound.
	Timeout int
	// Budget bounds each run of the agent and all runs below it.
	Budget      subjects.Budget
	Params      Params
	Memory      Memory
	Retry       Retry
	Supervision Supervision
	Artifacts   Artifacts
	// Inert are the keys of the file that have no effect in this version.
	Inert []string

	// File is the path that the agent was read from.
	File string
	// Digest is the SHA-256 of the file's bytes, in hex.
	Digest string
}

// SubAgentsConfig says how an agent's calls are carried out.
type SubAgentsConfig struct {
	// MaxDepth bounds the levels of runs below the agent. 0 stands for
	// DefaultMaxDepth.
	MaxDepth int
	// Parallel starts all calls of a turn at once. It is true by default.
	Parallel bool
	// Timeout bounds each call, in seconds. With 0 a call has the time that
	// is left to its caller.
	Timeout int
}

// Params are passed to the model. Zero values leave the choice to the provider.
type Params struct {
	Temperature *float64
	MaxTokens   int
	// OnTruncated decides about an answer that was cut at MaxTokens, or at
	// the provider's own limit. The empty value stands for WarnTruncated.
	OnTruncated OnTruncated
}

// OnTruncated is the decision about an answer that was cut.
type OnTruncated string

// The choices about an answer that was cut.
const (
	// WarnTruncated keeps the answer, and marks it.
	WarnTruncated OnTruncated = "warn"
	// FailTruncated fails the run.
	FailTruncated OnTruncated = "fail"
)

// Memory says how an agent remembers its own runs.
type Memory struct {
	Enabled bool
	// Path is the file of the agent's log, if logs are kept in files. Empty
	// stands for memory/<name>.md below DataDir.
	Path string
	// LastN is the number of entries that a run is shown. 0 stands for all.
	LastN int
	// MaxEntries is the number of entries beyond which a worker warns. 0
	// stands for no bound.
	MaxEntries int
}

// DefaultMaxDepth is the depth of a tree below its root if the root's file sets
// no other.
const DefaultMaxDepth = 3

const (
	// maxDepth is the largest max_depth that a file may set.
	maxDepth = 5
	// maxFile bounds the bytes of one file.
	maxFile = 1 << 20
)

// MaxDepth returns the levels that a tree may have below this agent as its
// root. It is never 0.
func (a Agent) MaxDepth() int { return cmp.Or(a.SubAgentsConf.MaxDepth, DefaultMaxDepth) }

// Load reads one agent. Its error is an *Error, which wraps the error of the
// file system if there is one.
func Load(file string) (Agent, error) {
	a, _, err := load(file)
	return a, err
}

// load is Load. It also returns the agent's skill.
func load(file string) (Agent, skill, error) {
	b, _, err := files.Read(file, os.O_RDONLY, maxFile)
	if err != nil {
		return Agent{}, skill{}, &Error{File: file, Message: withoutPath(err), cause: err}
	}
	a, err := parse(file, b)
	if err != nil {
		return Agent{}, skill{}, err
	}
	dir := filepath.Dir(file)
	s := newSkill(a.Skill, dir, filepath.Join(dir, ".."))
	a.Skill = s.found
	return a, s, nil
}

// parse decodes an agent from a file's bytes. Its skill is not looked for.
func parse(file string, b []byte) (Agent, error) {
	sum := sha256.Sum256(b)
	a := Agent{
		File: file, Digest: hex.EncodeToString(sum[:]),
		SubAgentsConf: SubAgentsConfig{Parallel: true}, Retry: Retry{MaxAttempts: DefaultMaxAttempts},
	}
	doc, err := newDocument(file, string(b))
	if err != nil {
		return Agent{}, err
	}
	tools, axe18 := toolConf(nil), compat{}
	var servers mcpServers
	fields := fields(&a, tools)
	fields["mcp_servers"] = &servers
	if err := doc.decode(fields, axe18.fields()); err != nil {
		return Agent{}, err
	}
	if err := axe18.apply(&a, doc.has); err != nil {
		return Agent{}, doc.locate(err)
	}
	a.ToolConf = settings(tools)
	var wrong *Error
	if a.Servers, wrong = servers.checked(); wrong != nil {
		return Agent{}, doc.locate(wrong)
	}
	if err := validate(a); err != nil {
		return Agent{}, doc.locate(err)
	}
	if err := resolve(&a, filepath.Dir(file)); err != nil {
		return Agent{}, doc.locate(err)
	}
	return a, nil
}

// resolve makes the paths of an agent absolute or relative to the current
// directory, except that of its skill. In the agent's file they are relative to
// dir.
func resolve(a *Agent, dir string) *Error {
	var err error
	if a.Skill, err = expandHome(a.Skill); err != nil {
		return invalid("skill", err.Error())
	}
	if a.Sandbox, err = a.Sandbox.expanded(); err != nil {
		return invalid("sandbox.read", err.Error())
	}
	if a.Workdir, err = expandVariables(a.Workdir); err != nil {
		return invalid("workdir", err.Error())
	}
	if a.Workdir, err = resolvePath(a.Workdir, dir); err != nil {
		return invalid("workdir", err.Error())
	}
	if a.Memory.Path, err = resolvePath(a.Memory.Path, dir); err != nil {
		return invalid("memory.path", err.Error())
	}
	return resolveServers(a)
}

// resolvePath returns a path of a file in dir. It replaces "~". An empty path
// stays empty.
func resolvePath(path, dir string) (string, error) {
	path, err := expandHome(path)
	if err != nil || path == "" || filepath.IsAbs(path) {
		return path, err
	}
	return filepath.Join(dir, path), nil
}

// fields maps every key of the format to the variable for its value. Tools are
// the settings of each tool.
func fields(a *Agent, tools map[string]*ToolConfig) map[string]any {
	all := map[string]any{
		"name":          &a.Name,
		"description":   &a.Description,
		"model":         &a.Model,
		"system_prompt": &a.SystemPrompt,
		"skill":         &a.Skill,
		"files":         &a.Files,
		"workdir":       &a.Workdir,
		"tools":         &a.Tools,
		"allowed_hosts": &a.AllowedHosts,
		"sub_agents":    &a.SubAgents,
		"timeout":       &a.Timeout,

		"sub_agents_config.max_depth": &a.SubAgentsConf.MaxDepth,
		"sub_agents_config.parallel":  &a.SubAgentsConf.Parallel,
		"sub_agents_config.timeout":   &a.SubAgentsConf.Timeout,

		"delegation.style":     &a.Delegation.Styles,
		"delegation.max_batch": &a.Delegation.MaxBatch,
		"delegation.max_turns": &a.Delegation.MaxTurns,

		"policy.agents": &a.Policy.Agents,
		"policy.tools":  &a.Policy.Tools,

		"params.temperature":  &a.Params.Temperature,
		"params.max_tokens":   &a.Params.MaxTokens,
		"params.on_truncated": (*string)(&a.Params.OnTruncated),

		"memory.enabled":     &a.Memory.Enabled,
		"memory.path":        &a.Memory.Path,
		"memory.last_n":      &a.Memory.LastN,
		"memory.max_entries": &a.Memory.MaxEntries,

		"retry.max_attempts": &a.Retry.MaxAttempts,
		"retry.backoff":      (*string)(&a.Retry.Backoff),
		"retry.initial":      (*duration)(&a.Retry.Initial),
		"retry.max":          (*duration)(&a.Retry.Max),

		"approve.tools": &a.Approve,
		"approve.by":    (*[]string)(&a.Approvers),

		"artifacts.max_result": &a.Artifacts.MaxResult,

		"sandbox.network": &a.Sandbox.Network,
		"sandbox.write":   &a.Sandbox.Write,
		"sandbox.read":    &a.Sandbox.Read,
		"sandbox.env":     &a.Sandbox.Env,

		"supervision.mode":       (*string)(&a.Supervision.Mode),
		"supervision.agent":      &a.Supervision.Agent,
		"supervision.timeout":    (*duration)(&a.Supervision.Timeout),
		"supervision.on_timeout": (*string)(&a.Supervision.OnTimeout),
	}
	addLimits(all, &a.Budget)
	for name, c := range tools {
		all["tool."+name+".effect"] = (*string)(&c.Effect)
		all["tool."+name+".timeout"] = (*duration)(&c.Timeout)
		all["tool."+name+".on_unknown"] = (*string)(&c.OnUnknown)
	}
	return all
}

// withoutPath returns the text of an error without the path, which an Error
// names already.
func withoutPath(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
