package cli

import (
	"context"
	"fmt"
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

// definitions remembers the last good definition of each agent, so that a file
// that is being edited takes no agent away.
type definitions struct {
	dir   string
	log   *slog.Logger
	level slog.Level               // of a wrong file
	last  map[string]configs.Agent // by file
	// what was wrong with a file when it was looked at last
	wrong map[string]string
}

// take is what to serve and what cannot be, given what the directory holds and
// what is wrong with it. What is wrong with a file is logged once.
func (d *definitions) take(
	ctx context.Context,
	agents []configs.Agent,
	err error,
) ([]configs.Agent, []agentd.Broken) {
	good, wrong := make(map[string]configs.Agent, len(agents)), map[string]string{}
	for _, a := range agents {
		good[a.File] = a
	}
	var broken []agentd.Broken
	for _, e := range Wrong(err) {
		kept, ok := d.last[e.File]
		if ok {
			good[e.File] = kept
		} else if name, ok := agentOf(e, d.dir); ok {
			broken = append(broken, agentd.Broken{Name: name, Problem: problem(e)})
		}
		if e.File == d.dir {
			good, ok = d.last, len(d.last) > 0
		}
		if wrong[e.File] = e.Error(); wrong[e.File] != d.wrong[e.File] {
			d.log.Log(ctx, d.level, "agent file", slog.Any(keyError, e), slog.Bool(keyKept, ok))
		}
	}
	if len(good) == 0 {
		d.log.WarnContext(ctx, "no agents to serve", slog.String(keyDir, d.dir))
	}
	d.last, d.wrong = good, wrong
	return slices.Collect(maps.Values(good)), broken
}

// agentOf is the agent whose file in a directory is wrong; what is wrong with
// the directory is no agent's.
func agentOf(e *configs.Error, dir string) (subjects.Agent, bool) {
	name, err := subjects.ParseAgent(strings.TrimSuffix(filepath.Base(e.File), ".toml"))
	return name, err == nil && e.File != dir
}

// problem is what other machines are told of a wrong file: not where it is.
func problem(e *configs.Error) string {
	short := *e
	short.File = filepath.Base(e.File)
	return short.Error()
}

// Wrong lists what configs.LoadDir found wrong, one for each file.
func Wrong(err error) []*configs.Error {
	switch e := err.(type) { //nolint:errorlint // what joins errors is taken apart here
	case *configs.Error:
		return []*configs.Error{e}
	case interface{ Unwrap() []error }:
		var all []*configs.Error
		for _, one := range e.Unwrap() {
			all = append(all, Wrong(one)...)
		}
		return all
	}
	return nil
}

// Defined is an agent of a directory. The error of one that it does not define
// says what is wrong with its file, if there is one.
func Defined(dir, agent string) (configs.Agent, error) {
	agents, err := configs.LoadDir(dir)
	for _, e := range Wrong(err) {
		if e.File == dir || e.File == filepath.Join(dir, agent+".toml") {
			return configs.Agent{}, e
		}
	}
	for _, a := range agents {
		if a.Name == agent {
			return a, nil
		}
	}
	return configs.Agent{}, Fail(
		CodeConfig,
		fmt.Errorf("agent config not found: %s: no %s.toml in %s", agent, agent, dir),
	)
}

// Announced waits until workers have announced all agents of a directory, those
// too whose files are wrong.
func Announced(ctx context.Context, conn *bus.Conn, dir string) error {
	agents, err := configs.LoadDir(dir)
	missing := make(map[string]bool, len(agents))
	for _, a := range agents {
		missing[a.Name] = true
	}
	for _, e := range Wrong(err) {
		if name, ok := agentOf(e, dir); ok {
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
