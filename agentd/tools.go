package agentd

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/provider"
)

// toolOf returns a tool of an agent, with the effect that the agent's file gives
// it. It returns false if the agent has no such tool.
func toolOf(def configs.Agent, name string) (builtin.Tool, bool) {
	t, ok := builtin.Find(name)
	t.Effect = cmp.Or(run.ToolEffect(def.ToolConf[name].Effect), t.Effect)
	return t, ok && slices.Contains(def.Tools, name)
}

// served returns the tools of an agent that tool runs carry out.
func served(def configs.Agent) []run.ServedTool {
	var all []run.ServedTool
	for _, name := range def.Tools {
		if t, ok := toolOf(def, name); ok {
			c := def.ToolConf[name]
			all = append(all, run.ServedTool{
				Name: name, By: def.Name, Effect: t.Effect, Timeout: c.Timeout, OnUnknown: run.OnUnknown(c.OnUnknown),
			})
		}
	}
	return all
}

// servedTools returns the definitions of the served tools of a run.
func servedTools(s *run.Start) []provider.Tool {
	names := make([]string, len(s.Served))
	for i, t := range s.Served {
		names[i] = t.Name
	}
	return builtin.Definitions(names)
}

// toolAttrs are the attributes of a log message about an agent with tools. Every
// host that serves the agent carries them out in its own workdir.
func toolAttrs(def configs.Agent) []any {
	if len(def.Tools) == 0 {
		return nil
	}
	return []any{slog.String(keyTools, strings.Join(def.Tools, ", ")), slog.String(keyWorkdir, def.Workdir)}
}
