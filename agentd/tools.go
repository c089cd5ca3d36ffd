package agentd

import (
	"cmp"

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
