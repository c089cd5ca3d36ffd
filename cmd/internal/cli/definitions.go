package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// definitions keeps the last valid definition of each agent, so that an agent
// stays available while a person edits its file.
type definitions struct {
	dir   string
	log   *slog.Logger
	level slog.Level               // of invalid files
	last  map[string]configs.Agent // by file
	wrong map[string]string        // last error, by file
}

// merge returns the agents to serve, and the agents that cannot be served. Its
// arguments are the results of configs.LoadDir. Each error is logged once.
func (d *definitions) merge(
	ctx context.Context, agents []configs.Agent, err error,
) ([]configs.Agent, []agentd.Broken) {
	good, wrong := make(map[string]configs.Agent, len(agents)), map[string]string{}
	for _, a := range agents {
		good[a.File] = a
	}
	var broken []agentd.Broken
	for _, e := range FileErrors(err) {
		kept, ok := d.last[e.File]
		if ok {
			good[e.File] = kept
		} else if name, ok := AgentOf(e, d.dir); ok {
			broken = append(broken, agentd.Broken{Name: name, Problem: problem(e)})
		}
		if e.File == d.dir {
			good, ok = d.last, len(d.last) > 0
		}
		wrong[e.File] = e.Error()
		if wrong[e.File] != d.wrong[e.File] {
			d.log.Log(ctx, d.level, "invalid agent file", slog.Any(keyError, e), slog.Bool(keyKept, ok))
		}
	}
	if len(good) == 0 {
		d.log.WarnContext(ctx, "no agents to serve", slog.String(keyDir, d.dir))
	}
	d.last, d.wrong = good, wrong
	return slices.Collect(maps.Values(good)), broken
}

// AgentOf returns the agent of an invalid file. It reports false for an error
// of the directory itself.
func AgentOf(e *configs.Error, dir string) (subjects.Agent, bool) {
	name, err := subjects.ParseAgent(strings.TrimSuffix(filepath.Base(e.File), ".toml"))
	return name, err == nil && e.File != dir
}

// problem returns the error of a file for other machines, without the file's
// directory.
func problem(e *configs.Error) string {
	short := *e
	short.File = filepath.Base(e.File)
	return short.Error()
}

// FileErrors lists the errors in a result of configs.LoadDir, one for each
// file.
func FileErrors(err error) []*configs.Error {
	switch e := err.(type) { //nolint:errorlint // takes joined errors apart
	case *configs.Error:
		return []*configs.Error{e}
	case interface{ Unwrap() []error }:
		var all []*configs.Error
		for _, one := range e.Unwrap() {
			all = append(all, FileErrors(one)...)
		}
		return all
	}
	return nil
}

// FindAgent returns an agent of a directory. If the agent's file is invalid, it
// returns the error of the file.
func FindAgent(dir, agent string) (configs.Agent, error) {
	a, err := configs.Load(filepath.Join(dir, agent+".toml"))
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	if err := CheckDir(dir); err != nil {
		return a, err
	}
	text := fmt.Sprintf("agent config not found: %s: no %s.toml in %s", agent, agent, dir)
	files, _ := filepath.Glob(filepath.Join(dir, "*.toml"))
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".toml")
	}
	if near := configs.Nearest(files, agent); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return a, Fail(CodeConfig, errors.New(text))
}

// CheckDir returns an error if the directory cannot be read. It ignores errors
// of the files in it.
func CheckDir(dir string) error {
	_, err := configs.LoadDir(dir)
	for _, wrong := range FileErrors(err) {
		if wrong.File == dir {
			return wrong
		}
	}
	return nil
}

// WaitAnnounced waits until workers have announced all agents of a directory,
// including the agents with invalid files.
func WaitAnnounced(ctx context.Context, conn *bus.Conn, dir string) error {
	agents, err := configs.LoadDir(dir)
	missing := make(map[string]bool, len(agents))
	for _, a := range agents {
		missing[a.Name] = true
	}
	for _, e := range FileErrors(err) {
		if name, ok := AgentOf(e, dir); ok {
			missing[name.String()] = true
		}
	}
	cards, err := conn.Directory(ctx)
	if err != nil {
		return err
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
