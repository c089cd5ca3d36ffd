package agentd

import (
	"cmp"
	"log/slog"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/provider"
)

// served returns the tools of an agent that tool runs carry out.
func served(def configs.Agent) []run.ServedTool {
	var all []run.ServedTool
	for _, name := range def.Tools {
		t, ok := builtin.Find(name)
		if !ok {
			continue
		}
		c := def.ToolConf[name]
		all = append(all, run.ServedTool{
			Name: name, By: def.Name, Effect: cmp.Or(run.ToolEffect(c.Effect), t.Effect),
			Timeout: c.Timeout, OnUnknown: run.OnUnknown(c.OnUnknown),
		})
	}
	return all
}

// servedTools returns the definitions of the served tools of a run.
func servedTools(s *run.Start) []provider.Tool {
	var all []provider.Tool
	for _, served := range s.Served {
		if t, ok := builtin.Find(served.Name); ok {
			all = append(all, t.Definition)
		}
	}
	return all
}

// toolAttrs are the attributes of a log message about an agent with tools. Every
// host that serves the agent carries them out in its own workdir.
func toolAttrs(def configs.Agent) []any {
	if len(def.Tools) == 0 {
		return nil
	}
	return []any{slog.String(keyTools, strings.Join(def.Tools, ", ")), slog.String(keyWorkdir, def.Workdir)}
}
