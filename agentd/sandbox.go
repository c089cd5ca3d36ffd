package agentd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	mu sync.Mutex
	// probed says that means and err are those of a probe.
	probed bool
	means  sandbox.Means
	err    error
	// again is the time of the next probe; zero if the kernel has decided.
	again time.Time
	// remark is the reason for weaker means, until it is logged.
	remark error
}

const (
	// probeTimeout bounds the probe of the sandbox.
	probeTimeout = 20 * time.Second
	// probeInterval is the time until the next probe after one that could
	// not be made.
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

// held says how commands are held, by the last probe. What the kernel has
// decided stays. After a probe that could not be made, it makes another one
// once probeInterval has passed.
func (s *Sandbox) held() (sandbox.Means, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probed && (s.again.IsZero() || time.Now().Before(s.again)) {
		return s.means, s.err
	}
	s.means, s.err = s.probe()
	s.probed, s.again, s.remark = true, time.Time{}, s.means.NoNamespaces
	if errors.Is(cmp.Or(s.err, s.means.NoNamespaces), sandbox.ErrUnsure) {
		s.again = time.Now().Add(probeInterval)
	}
	return s.means, s.err
}

// takeRemark returns why commands are held without namespaces, once for each
// probe.
func (s *Sandbox) takeRemark() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	remark := s.remark
	s.remark = nil
	return remark
}

// NoSandbox runs commands without a sandbox: with all rights of the worker. It
// is the decision of the worker's operator.
func NoSandbox() *Sandbox { return &Sandbox{off: true} }

// MaybeExec does the work of a command's helper if this process was started as
// one, and does not return then.
func MaybeExec() { sandbox.MaybeExec() }

// problem says why commands cannot be held, "" if they can.
func (s *Sandbox) problem() string {
	switch {
	case s == nil:
		return "this worker runs no commands"
	case s.off:
		return ""
	}
	if _, err := s.held(); err != nil {
		return fmt.Sprintf("commands cannot be held in a sandbox here: %v", err)
	}
	return ""
}

// of returns how the commands of an agent or a toolset are held.
func (s *Sandbox) of(c configs.Sandbox) builtin.Sandbox {
	held := builtin.Sandbox{Network: c.Network, Write: c.Writable(), Read: c.Read, Env: c.Env}
	if s == nil || s.off {
		held.Off = s != nil
		return held
	}
	means, _ := s.held()
	held.Namespaces = means.Namespaces
	return held
}

// ofToolset returns the function that says how the programs of a toolset are
// held.
func (s *Sandbox) ofToolset(def configs.Toolset) func(key string) (sandbox.Config, error) {
	return func(key string) (sandbox.Config, error) {
		dir, err := filepath.Abs(cmp.Or(def.Workdir, "."))
		return builtin.Held(dir, key, s.of(def.Sandbox)), err
	}
}

// withoutCommands splits off the agents and toolsets with commands that this
// worker cannot hold.
func (s *Sandbox) withoutCommands(defs configs.Definitions) (rest configs.Definitions, refused []Broken) {
	refuse := func(name, what string) bool {
		problem := s.problem()
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
