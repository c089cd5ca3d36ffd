package agentd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/builtin"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/provider"
)

// toolOf returns a built-in tool of an agent, with the effect that the agent's
// file gives it. It returns false if the agent has no such tool.
func toolOf(def configs.Agent, name string) (builtin.Tool, bool) {
	t, ok := builtin.Find(name)
	t.Effect = cmp.Or(run.ToolEffect(def.ToolConf[name].Effect), t.Effect)
	return t, ok && slices.Contains(def.Tools, name)
}

// namedTools returns the entries of an agent's key tools, for its card.
func namedTools(def configs.Agent) []OfferedTool {
	var all []OfferedTool
	for _, name := range def.Tools {
		t, _ := toolOf(def, name)
		c := def.ToolConf[name]
		all = append(all, OfferedTool{
			Tool: toolset.Tool{Name: name, Effect: t.Effect}, As: name, Timeout: c.Timeout,
			OnUnknown: run.OnUnknown(c.OnUnknown),
		})
	}
	return all
}

func serverNames(def configs.Agent) []string {
	var names []string
	for _, s := range def.Servers {
		names = append(names, s.Name)
	}
	return names
}

// toolOffer gathers the tools of an agent that tool runs carry out.
type toolOffer struct {
	served      []run.ServedTool
	definitions []provider.Tool
	missing     []tool.Missing
}

// add adds a tool. A model tells its tools apart by their names alone.
func (o *toolOffer) add(t run.ServedTool, d provider.Tool) error {
	for _, other := range o.served {
		if other.Name == t.Name && other.FullName() != t.FullName() {
			return fmt.Errorf("the tools %s and %s have one name for the model (%s): set a prefix in the toolset's file",
				other.FullName(), t.FullName(), t.Name)
		}
		if other.Name == t.Name {
			return nil
		}
	}
	d.Name = t.Name
	o.served = append(o.served, t)
	o.definitions = append(o.definitions, d)
	return nil
}

// addBuiltin adds a built-in tool of an agent.
func (o *toolOffer) addBuiltin(def configs.Agent, name string) error {
	t, ok := toolOf(def, name)
	if !ok {
		return nil
	}
	c := def.ToolConf[name]
	return o.add(run.ServedTool{
		Name: name, By: def.Name, Effect: t.Effect, Timeout: c.Timeout, OnUnknown: run.OnUnknown(c.OnUnknown),
	}, t.Definition)
}

// addToolset adds the tools on the card of a toolset that a glob matches.
func (o *toolOffer) addToolset(c Card, glob string) error {
	found := false
	for _, t := range c.Tools {
		if !matches([]string{glob}, t.Name) {
			continue
		}
		found = true
		err := o.add(run.ServedTool{
			Name: t.As, By: c.Name, Tool: t.Name, Effect: t.Effect, Timeout: t.Timeout, OnUnknown: t.OnUnknown,
		}, provider.Tool{Description: t.Description, Schema: t.Schema})
		if err != nil {
			return err
		}
	}
	if !found {
		o.missing = append(o.missing, tool.Missing{Name: c.Name + "/" + glob, Why: "the toolset has no such tool"})
	}
	return nil
}

// toolsFor returns the tools of an agent that tool runs carry out. The tools of
// toolsets are those of the toolsets' cards. A toolset without a card is
// missing, and so is one with a problem, unless the agent needs it to start.
func (w *Worker) toolsFor(ctx context.Context, def configs.Agent) (*toolOffer, error) {
	o := &toolOffer{}
	for _, name := range def.Tools {
		set, glob, ok := configs.OfToolset(name)
		if !ok {
			if err := o.addBuiltin(def, name); err != nil {
				return nil, err
			}
			continue
		}
		c, found, err := w.directory.find(ctx, set)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errUnread, err)
		case found && c.Toolset == "":
			return nil, fmt.Errorf("tools: %q: %s is an agent, and no toolset", name, set)
		case found && c.Problem == "":
			err = o.addToolset(c, glob)
		case c.Required:
			err = fmt.Errorf("the toolset %s is required: %s", set, c.Problem)
		default:
			o.missing = append(o.missing, tool.Missing{Name: name, Why: cmp.Or(c.Problem, "no worker serves the toolset")})
		}
		if err != nil {
			return nil, err
		}
	}
	return o, w.addServers(o, def)
}

// addServers adds the tools of an agent's own MCP servers. A tool of such a
// server whose name is that of a built-in tool of the agent is left out, as in
// axe.
func (w *Worker) addServers(o *toolOffer, def configs.Agent) error {
	for _, server := range def.Servers {
		set, ok := w.toolsets.find(ownKey(def.Name, server.Name))
		if !ok {
			continue // the file has changed at this moment
		}
		c := set.card(w.cfg.Name)
		switch {
		case c.Problem != "" && c.Required:
			return fmt.Errorf("the MCP server %s is required: %s", server.Name, c.Problem)
		case c.Problem != "":
			o.missing = append(o.missing, tool.Missing{Name: server.Name + "/*", Why: c.Problem})
			continue
		}
		for _, t := range c.Tools {
			if slices.Contains(def.Tools, t.As) {
				continue
			}
			err := o.add(run.ServedTool{
				Name: t.As, By: def.Name, Tool: c.Name + "/" + t.Name, Effect: t.Effect, Timeout: t.Timeout,
				OnUnknown: t.OnUnknown,
			}, provider.Tool{Description: t.Description, Schema: t.Schema})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// approvals returns the tools that a person approves, one by one: globs of tools
// of toolsets stand for the tools in served.
func approvals(approve []string, served []run.ServedTool) []string {
	var names []string
	for _, t := range served {
		if matches(approve, t.FullName()) {
			names = append(names, t.FullName())
		}
	}
	return names
}

// definitionsOf returns the definitions of the served tools of a run that takes
// over the tools of another one. Those of a toolset that is gone are left out.
func (w *Worker) definitionsOf(served []run.ServedTool) []provider.Tool {
	var all []provider.Tool
	for _, t := range served {
		var d provider.Tool
		if t.Tool == "" {
			b, _ := builtin.Find(t.Name)
			d = b.Definition
		} else if o, ok := w.announced(t); ok {
			d = provider.Tool{Name: t.Name, Description: o.Description, Schema: o.Schema}
		}
		if d.Name != "" {
			all = append(all, d)
		}
	}
	return all
}

// announced returns a tool of a toolset as its workers announce it. For a tool of
// an agent's own server, this worker's server says it.
func (w *Worker) announced(t run.ServedTool) (OfferedTool, bool) {
	if server, name, own := configs.OfToolset(t.Tool); own {
		set, ok := w.toolsets.find(ownKey(t.By, server))
		if !ok {
			return OfferedTool{}, false
		}
		return set.tool(name)
	}
	c, _, _ := w.directory.heard(t.By)
	i := slices.IndexFunc(c.Tools, func(o OfferedTool) bool { return o.Name == t.Tool })
	if i < 0 {
		return OfferedTool{}, false
	}
	return c.Tools[i], true
}

// toolAttrs are the attributes of a log message about an agent with tools. Every
// host that serves the agent carries them out in its own workdir.
func toolAttrs(def configs.Agent) []any {
	if len(def.Tools) == 0 {
		return nil
	}
	return []any{slog.String(keyTools, strings.Join(def.Tools, ", ")), slog.String(keyWorkdir, def.Workdir)}
}
