package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// definitions keeps the last valid definition of each agent and toolset, so
// that it stays available while a person edits its file.
type definitions struct {
	dir      string
	log      *slog.Logger
	level    slog.Level                 // of messages about invalid files
	agents   map[string]configs.Agent   // by file
	toolsets map[string]configs.Toolset // by file
	wrong    map[string]string          // last error, by file
}

// merge returns the agents and toolsets to serve, and those that cannot be
// served. Its arguments are the results of configs.LoadAll. Each error is
// logged once.
func (d *definitions) merge(
	ctx context.Context, defs configs.Definitions, err error,
) (configs.Definitions, []agentd.Broken) {
	agents, toolsets, wrong := map[string]configs.Agent{}, map[string]configs.Toolset{}, map[string]string{}
	names := map[string]bool{}
	for _, a := range defs.Agents {
		agents[a.File] = a
		names[a.Name] = true
	}
	for _, t := range defs.Toolsets {
		toolsets[t.File] = t
	}
	var broken []agentd.Broken
	for _, e := range fileErrors(err) {
		agent, isAgent := d.agents[e.File]
		set, isSet := d.toolsets[e.File]
		isSet = isSet && !names[set.Name]
		kept := isAgent || isSet
		switch {
		case isAgent:
			agents[e.File] = agent
		case isSet:
			toolsets[e.File] = set
		case e.File == d.dir:
			agents = d.agents
			toolsets = d.toolsets
			kept = len(agents) > 0
		default:
			if name, ok := agentOf(e, d.dir); ok {
				broken = append(broken, agentd.Broken{Name: name, Problem: problem(e)})
			}
		}
		wrong[e.File] = e.Error()
		if wrong[e.File] != d.wrong[e.File] {
			d.log.Log(ctx, d.level, "invalid file", slog.Any(keyError, e), slog.Bool(keyKept, kept))
		}
	}
	if len(agents)+len(toolsets) == 0 {
		d.log.WarnContext(ctx, "no agents to serve: a file that is added is served at once", slog.String(keyDir, d.dir))
	}
	d.agents = agents
	d.toolsets = toolsets
	d.wrong = wrong
	return configs.Definitions{
		Agents: slices.Collect(maps.Values(agents)), Toolsets: slices.Collect(maps.Values(toolsets)),
	}, broken
}

// agentOf returns the agent or toolset of an invalid file. It reports false for
// an error of the directory itself, and for a file whose name cannot be an
// agent's.
func agentOf(e *configs.Error, dir string) (subjects.Agent, bool) {
	name, err := subjects.ParseAgent(configs.NameOf(e.File))
	return name, err == nil && e.File != dir
}

// problem returns the error of a file for other machines, without the file's
// directory.
func problem(e *configs.Error) string {
	short := *e
	short.File = filepath.Base(e.File)
	return short.Error()
}

// fileErrors lists the errors in a result of configs.LoadDir, one for each
// file.
func fileErrors(err error) []*configs.Error {
	switch e := err.(type) { //nolint:errorlint // takes joined errors apart
	case *configs.Error:
		return []*configs.Error{e}
	case interface{ Unwrap() []error }:
		var all []*configs.Error
		for _, one := range e.Unwrap() {
			all = append(all, fileErrors(one)...)
		}
		return all
	}
	return nil
}

// LoadDir returns the agents of a directory, sorted by name, and the errors of
// its invalid files. The third result is the error of the directory itself.
func LoadDir(dir string) ([]configs.Agent, []*configs.Error, error) {
	return load(dir, configs.LoadDir)
}

// LoadAll is LoadDir for the agents of a directory and the toolsets that belong
// to it.
func LoadAll(dir string) (configs.Definitions, []*configs.Error, error) {
	return load(dir, configs.LoadAll)
}

// load reads a directory, and splits the error: into those of files, and that
// of the directory itself.
func load[T any](dir string, read func(string) (T, error)) (T, []*configs.Error, error) {
	all, err := read(dir)
	invalid := fileErrors(err)
	for _, e := range invalid {
		if e.File == dir {
			return all, nil, e
		}
	}
	return all, invalid, nil
}

// AllAgents returns the agents of a directory, sorted by name. An agent with an
// invalid file has a name, and a description that says so. The error is that of
// the directory.
func AllAgents(dir string) ([]configs.Agent, error) {
	agents, invalid, err := LoadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range invalid {
		if name, ok := agentOf(e, dir); ok {
			agents = append(agents, configs.Agent{Name: name.String(), Description: "(its file is wrong)"})
		}
	}
	slices.SortFunc(agents, func(a, b configs.Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents, nil
}

// FindAgent returns an agent of a directory. If the agent's file is invalid, it
// returns the error of the file.
func FindAgent(dir, agent string) (configs.Agent, error) {
	a, err := configs.Load(filepath.Join(dir, agent+".toml"))
	if errors.Is(err, fs.ErrNotExist) {
		err = NotFound(dir, agent)
	}
	return a, err
}

// NotFound returns the error for an agent without a file in a directory. It
// suggests the agent with the most similar name. If the directory cannot be
// read, it returns the error of the directory.
func NotFound(dir, agent string) error {
	agents, err := AllAgents(dir)
	if err != nil {
		return err
	}
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	text := fmt.Sprintf("agent config not found: %s: no %s.toml in %s", agent, agent, dir)
	near := configs.Nearest(names, agent)
	switch {
	case near != "":
		text += fmt.Sprintf("; did you mean %q?", near)
	case len(names) == 0:
		text += fmt.Sprintf("; axe agents init %s --agents %s makes one", agent, dir)
	default:
		text += fmt.Sprintf("; axe agents list --agents %s lists the agents there", dir)
	}
	return Fail(CodeConfig, errors.New(text))
}

// WaitAnnounced waits until workers have announced all agents and toolsets of a
// directory, including those with invalid files.
func WaitAnnounced(ctx context.Context, conn *bus.Conn, dir string) error {
	agents, err := AllAgents(dir)
	if err != nil {
		return err
	}
	defs, _, err := LoadAll(dir)
	if err != nil {
		return err
	}
	missing := make(map[string]bool, len(agents))
	for _, a := range agents {
		missing[a.Name] = true
	}
	for _, t := range defs.Toolsets {
		missing[t.Name] = true
	}
	cards, err := conn.Directory(ctx)
	if err != nil {
		return withCause(ctx, err)
	}
	watching, done := context.WithCancel(ctx)
	defer done()
	err = cards.Watch(watching, func(name string, card []byte) {
		if card != nil {
			delete(missing, name)
		}
		if len(missing) == 0 {
			done()
		}
	}, func() {})
	if len(missing) == 0 {
		return nil
	}
	return err
}
