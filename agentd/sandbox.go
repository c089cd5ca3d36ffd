package agentd

import (
	"context"
	"fmt"
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
}

// probeTimeout bounds the probe of the sandbox.
const probeTimeout = 20 * time.Second

// NewSandbox returns a sandbox for a worker. The program has to call MaybeExec
// before anything else: it starts itself again to hold a command. When the
// worker gets the first agent with commands, a probe does forbidden things. If
// the kernel does not refuse them, the worker does not serve such agents.
func NewSandbox() *Sandbox {
	return &Sandbox{probe: sync.OnceValues(func() (sandbox.Means, error) {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		return sandbox.Probe(ctx)
	})}
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
	if _, err := s.probe(); err != nil {
		return fmt.Sprintf("commands cannot be held in a sandbox here: %v", err)
	}
	return ""
}

// of returns how the commands of an agent are held.
func (s *Sandbox) of(def configs.Agent) builtin.Sandbox {
	held := builtin.Sandbox{
		Network: def.Sandbox.Network, Write: def.Sandbox.Writable(), Read: def.Sandbox.Read, Env: def.Sandbox.Env,
	}
	if s == nil || s.off {
		held.Off = s != nil
		return held
	}
	means, _ := s.probe()
	held.Namespaces = means.Namespaces
	return held
}

// withoutCommands splits off the agents with commands that this worker cannot
// hold.
func (s *Sandbox) withoutCommands(agents []configs.Agent) (rest []configs.Agent, refused []Broken) {
	for _, a := range agents {
		if !slices.Contains(a.Tools, "run_command") {
			rest = append(rest, a)
			continue
		}
		name, err := subjects.ParseAgent(a.Name)
		if problem := s.problem(); problem != "" && err == nil {
			refused = append(refused, Broken{Name: name, Problem: "run_command: " + problem})
		} else {
			rest = append(rest, a)
		}
	}
	return rest, refused
}
