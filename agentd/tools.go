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
	w   *Worker
	def configs.Agent

	served      []run.ServedTool
	definitions []provider.Tool
	missing     []tool.Missing
}

// add adds a tool. A model tells its tools apart by their names alone.
func (o *toolOffer) add(t run.ServedTool, d provider.Tool) error {
	for _, other := range o.served {
		if other.Name == t.Name && other.FullName() != t.FullName() {
			return fmt.Errorf(
				"the tools %s and %s have one name for the model (%s): set a prefix in the toolset's file",
				other.FullName(),
				t.FullName(),
				t.Name,
			)
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

// addBuiltin adds a built-in tool.
func (o *toolOffer) addBuiltin(name string) error {
	t, ok := toolOf(o.def, name)
	if !ok {
		return nil
	}
	c := o.def.ToolConf[name]
	return o.add(run.ServedTool{
		Name: name, By: o.def.Name, Effect: t.Effect, Timeout: c.Timeout, OnUnknown: run.OnUnknown(c.OnUnknown),
	}, t.Definition)
}

// addOffered adds a tool on a card. By serves the tool under the given name.
func (o *toolOffer) addOffered(t OfferedTool, by, name string) error {
	return o.add(run.ServedTool{
		Name: t.As, By: by, Tool: name, Effect: t.Effect, Timeout: t.Timeout, OnUnknown: t.OnUnknown,
	}, provider.Tool{Description: t.Description, Schema: t.Schema})
}

// addToolset adds the tools on the card of a toolset that a glob matches.
func (o *toolOffer) addToolset(c Card, glob string) error {
	found := false
	for _, t := range c.Tools {
		if !matches([]string{glob}, t.Name) {
			continue
		}
		found = true
		if err := o.addOffered(t, c.Name, t.Name); err != nil {
			return err
		}
	}
	if !found {
		o.missing = append(o.missing, tool.Missing{Name: c.Name + "/" + glob, Why: "the toolset has no such tool"})
	}
	return nil
}

// toolsFor returns the tools of an agent that tool runs carry out. The tools of
// toolsets are those on the cards of the toolsets. A toolset without a card is
// missing. So is one with a problem, unless a run needs it to start.
func toolsFor(ctx context.Context, w *Worker, def configs.Agent) (toolOffer, error) {
	o := toolOffer{w: w, def: def}
	for _, name := range def.Tools {
		err := o.addNamed(ctx, name)
		if err != nil {
			return o, err
		}
	}
	err := o.addServers() // before o is read
	return o, err
}

// addNamed adds the tools that an entry of the agent's key tools names.
func (o *toolOffer) addNamed(ctx context.Context, name string) error {
	set, glob, ok := configs.OfToolset(name)
	if !ok {
		return o.addBuiltin(name)
	}
	c, found, err := o.w.directory.find(ctx, set)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnread, err)
	case found && c.Toolset == "":
		return fmt.Errorf("tools: %q: %s is an agent, and no toolset", name, set)
	case found && c.Problem == "":
		return o.addToolset(c, glob)
	case c.Required:
		return fmt.Errorf("the toolset %s is required: %s", set, c.Problem)
	}
	o.missing = append(o.missing, tool.Missing{Name: name, Why: cmp.Or(c.Problem, "no worker serves the toolset")})
	return nil
}

// addServers adds the tools of the agent's own MCP servers. A tool of such a
// server is left out if a built-in tool of the agent has its name, as in axe.
func (o *toolOffer) addServers() error {
	for _, server := range o.def.Servers {
		set, ok := o.w.toolsets.find(ownKey(o.def.Name, server.Name))
		if !ok {
			continue // the file has changed at this moment
		}
		c := set.card(o.w.cfg.Name)
		switch {
		case c.Problem != "" && c.Required:
			return fmt.Errorf("the MCP server %s is required: %s", server.Name, c.Problem)
		case c.Problem != "":
			o.missing = append(o.missing, tool.Missing{Name: server.Name + "/*", Why: c.Problem})
			continue
		}
		for _, t := range c.Tools {
			if slices.Contains(o.def.Tools, t.As) {
				continue
			}
			if err := o.addOffered(t, o.def.Name, c.Name+"/"+t.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// approvals returns the tools that a person approves, one by one: globs of
// tools of toolsets stand for the tools in served.
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
func definitionsOf(w *Worker, served []run.ServedTool) []provider.Tool {
	var all []provider.Tool
	for _, t := range served {
		var d provider.Tool
		if t.Tool == "" {
			b, _ := builtin.Find(t.Name)
			d = b.Definition
		} else if o, ok := announced(w, t); ok {
			d = provider.Tool{Name: t.Name, Description: o.Description, Schema: o.Schema}
		}
		if d.Name != "" {
			all = append(all, d)
		}
	}
	return all
}

// announced returns a tool of a toolset as its workers announce it, or a tool
// of an agent's own server as this worker's server lists it.
func announced(w *Worker, t run.ServedTool) (OfferedTool, bool) {
	if server, name, own := configs.OfToolset(t.Tool); own {
		set, ok := w.toolsets.find(ownKey(t.By, server))
		if !ok {
			return OfferedTool{}, false
		}
		t, _, ok := set.tool(name)
		return t, ok
	}
	c, _, _ := w.directory.heard(t.By)
	i := slices.IndexFunc(c.Tools, func(o OfferedTool) bool { return o.Name == t.Tool })
	if i < 0 {
		return OfferedTool{}, false
	}
	return c.Tools[i], true
}

// toolAttrs are the attributes of a log message about an agent with tools.
// Every host that serves the agent carries them out in its own workdir.
func toolAttrs(def configs.Agent) []any {
	if len(def.Tools) == 0 {
		return nil
	}
	return []any{slog.String(keyTools, strings.Join(def.Tools, ", ")), slog.String(keyWorkdir, def.Workdir)}
}
