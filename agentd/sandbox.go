package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/internal/sandbox"
	"github.com/axebus/axe/subjects"
)

// Sandbox runs the commands of a worker's agents.
type Sandbox struct {
	off   bool
	probe func() (sandbox.Means, error)

	first sync.Once // for the first probe
	mu    sync.Mutex
	means sandbox.Means
	err   error
	// again is the time of the next probe; zero if the kernel has decided.
	again time.Time
}

const (
	// probeTimeout bounds the probe of the sandbox.
	probeTimeout = 20 * time.Second
	// probeInterval is the time until the next probe after one that could
	// not be made. It is longer than a probe.
	probeInterval = time.Minute
)

// NewSandbox returns a sandbox for a worker. The program has to call MaybeExec
// before anything else: it starts itself again to hold a command. When the
// worker gets the first agent with commands, a probe does forbidden things. If
// the kernel does not refuse them, the worker does not serve such agents.
func NewSandbox() *Sandbox {
	return &Sandbox{probe: func() (sandbox.Means, error) {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		return sandbox.Probe(ctx)
	}}
}

// held says how commands are held. What the kernel has decided stays. After a
// probe that could not be made, one caller makes another one once probeInterval
// has passed. Until it ends, the others are told what is known.
func (s *Sandbox) held(log *slog.Logger) (sandbox.Means, error) {
	s.first.Do(func() { s.try(log) })
	if s.due() {
		s.try(log)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.means, s.err
}

// due reports whether the caller is to make another probe.
func (s *Sandbox) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.again.IsZero() || now.Before(s.again) {
		return false
	}
	s.again = now.Add(probeInterval) // no other caller makes it
	return true
}

// try makes a probe. One that could not be made does not replace one that has
// shown that commands are held.
func (s *Sandbox) try(log *slog.Logger) {
	means, err := s.probe()
	if means.NoNamespaces != nil {
		log.Info("commands are held without namespaces", slog.Any(keyError, means.NoNamespaces))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = time.Time{}
	if errors.Is(cmp.Or(err, means.NoNamespaces), sandbox.ErrUnsure) {
		s.again = time.Now().Add(probeInterval)
	}
	if s.means.Landlock == 0 || !errors.Is(err, sandbox.ErrUnsure) {
		s.means, s.err = means, err
	}
}

// NoSandbox runs commands without a sandbox: with all rights of the worker. It
// is the decision of the worker's operator.
func NoSandbox() *Sandbox { return &Sandbox{off: true} }

// MaybeExec does the work of a command's helper if this process was started as
// one, and does not return then.
func MaybeExec() { sandbox.MaybeExec() }

// problem says why commands cannot be held, "" if they can.
func (s *Sandbox) problem(log *slog.Logger) string {
	switch {
	case s == nil:
		return "this worker runs no commands"
	case s.off:
		return ""
	}
	if _, err := s.held(log); err != nil {
		return fmt.Sprintf("commands cannot be held in a sandbox here: %v", err)
	}
	return ""
}

// of returns how the commands of an agent or a toolset are held.
func (s *Sandbox) of(c configs.Sandbox, log *slog.Logger) builtin.Sandbox {
	held := builtin.Sandbox{Network: c.Network, Write: c.Writable(), Read: c.Read, Env: c.Env}
	if s == nil || s.off {
		held.Off = s != nil
		return held
	}
	means, _ := s.held(log)
	held.Namespaces = means.Namespaces
	return held
}

// ofToolset returns the function that says how the programs of a toolset are
// held.
func (s *Sandbox) ofToolset(def configs.Toolset, log *slog.Logger) func(key string) (sandbox.Config, error) {
	return func(key string) (sandbox.Config, error) {
		dir, err := filepath.Abs(cmp.Or(def.Workdir, "."))
		return builtin.Held(dir, key, s.of(def.Sandbox, log)), err
	}
}

// withoutCommands splits off the agents and toolsets with commands that this
// worker cannot hold.
func (s *Sandbox) withoutCommands(
	defs configs.Definitions, log *slog.Logger,
) (rest configs.Definitions, refused []Broken) {
	refuse := func(name, what string) bool {
		problem := s.problem(log)
		agent, err := subjects.ParseAgent(name)
		if problem == "" || err != nil {
			return false
		}
		refused = append(refused, Broken{Name: agent, Problem: what + ": " + problem})
		return true
	}
	for _, a := range defs.Agents {
		if !slices.Contains(a.Tools, "run_command") || !refuse(a.Name, "run_command") {
			rest.Agents = append(rest.Agents, a)
		}
	}
	for _, t := range defs.Toolsets {
		if t.Kind != configs.ToolsetCommand || !refuse(t.Name, "kind command") {
			rest.Toolsets = append(rest.Toolsets, t)
		}
	}
	return rest, refused
}
