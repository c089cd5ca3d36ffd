package cli

import (
	"context"
	"log/slog"
	"slices"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// Unwatched lists those of the agents whose supervisor is none of them. Unless
// somebody else serves it, nothing that they want to do is done.
func Unwatched(agents []configs.Agent) []configs.Agent {
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

// supervisors warns of agents whose supervisor nobody has announced, of each
// once.
type supervisors struct {
	conn *bus.Conn
	log  *slog.Logger
	told map[[2]string]bool
}

func (s *supervisors) check(ctx context.Context, agents []configs.Agent) {
	for _, a := range Unwatched(agents) {
		pair := [2]string{a.Name, a.Supervision.Agent}
		if s.told[pair] || s.announced(ctx, a.Supervision.Agent) {
			continue
		}
		s.told[pair] = true
		s.log.WarnContext(
			ctx,
			"nobody serves the supervisor of an agent: nothing that it wants to do is done until a worker does",
			slog.String(keyAgent, a.Name),
			slog.String(keySupervisor, a.Supervision.Agent),
		)
	}
}

// announced reports whether some worker of the bus serves an agent. Without an
// answer it is not known to be so.
func (s *supervisors) announced(ctx context.Context, agent string) bool {
	dir, err := s.conn.Directory(ctx)
	if err != nil {
		return false
	}
	_, _, ok, err := dir.Get(ctx, agent)
	return ok && err == nil
}
