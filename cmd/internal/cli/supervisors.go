package cli

import (
	"context"
	"log/slog"
	"slices"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// WithoutSupervisor lists the agents with a supervisor that is not in agents.
// The turns of such an agent are withheld, unless another worker serves the
// supervisor.
func WithoutSupervisor(agents []configs.Agent) []configs.Agent {
	var out []configs.Agent
	for _, a := range agents {
		s := a.Supervision.WithDefaults()
		if s.Mode != configs.Unsupervised &&
			!slices.ContainsFunc(agents, func(b configs.Agent) bool { return b.Name == s.Agent }) {
			out = append(out, a)
		}
	}
	return out
}

// supervisors warns once of each agent with a supervisor that no worker has
// announced.
type supervisors struct {
	conn   *bus.Conn
	log    *slog.Logger
	warned map[[2]string]bool
}

func (s *supervisors) check(ctx context.Context, agents []configs.Agent) {
	for _, a := range WithoutSupervisor(agents) {
		pair := [2]string{a.Name, a.Supervision.Agent}
		if s.warned[pair] || s.announced(ctx, a.Supervision.Agent) {
			continue
		}
		s.warned[pair] = true
		s.log.WarnContext(ctx, "no worker serves the agent's supervisor: its turns are withheld",
			slog.String(keyAgent, a.Name), slog.String(keySupervisor, a.Supervision.Agent))
	}
}

// announced reports whether a worker on the bus has announced an agent. It
// reports false if the bus does not answer.
func (s *supervisors) announced(ctx context.Context, agent string) bool {
	dir, err := s.conn.Directory(ctx)
	if err != nil {
		return false
	}
	_, _, ok, err := dir.Get(ctx, agent)
	return ok && err == nil
}
