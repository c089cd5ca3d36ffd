package configs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// builtinTools are the names of the built-in tools.
var builtinTools = []string{
	"list_directory", "read_file", "write_file", "edit_file", "search_files", "run_command", "url_fetch", "web_search",
	"read_artifact", "write_artifact",
}

// BuiltinTools returns the names of the built-in tools.
func BuiltinTools() []string { return slices.Clone(builtinTools) }

// ToolConfig has the settings of a tool of an agent.
type ToolConfig struct {
	// Effect says how often the effect of the tool may happen. The empty
	// value stands for the tool's own.
	Effect ToolEffect
	// Timeout bounds a call. With 0 a call has the time that is left to its
	// caller.
	Timeout time.Duration
	// OnUnknown says how the agent goes on after a call that may have taken
	// effect. The empty value stands for UnknownTell.
	OnUnknown OnUnknown
}

// ToolEffect says how often the effect of a tool may happen.
type ToolEffect string

// The effects.
const (
	// ToolReads: the tool changes nothing.
	ToolReads ToolEffect = "read"
	// ToolIdempotent: a second call with the same key changes nothing more.
	ToolIdempotent ToolEffect = "idempotent"
	// ToolOnce: a call is not made again after a crash.
	ToolOnce ToolEffect = "once"
)

// OnUnknown is the decision after a call that may have taken effect.
type OnUnknown string

// The decisions.
const (
	// UnknownTell lets the model decide.
	UnknownTell OnUnknown = "tell"
	// UnknownAsk: a person settles the call.
	UnknownAsk OnUnknown = "ask"
	// UnknownAgain makes the call again.
	UnknownAgain OnUnknown = "again"
	// UnknownFail fails the run.
	UnknownFail OnUnknown = "fail"
)

// toolConf returns the settings of each built-in tool. A tool that is not in
// known has the zero value.
func toolConf(known map[string]ToolConfig) map[string]*ToolConfig {
	all := make(map[string]*ToolConfig, len(builtinTools))
	for _, name := range builtinTools {
		all[name] = new(known[name])
	}
	return all
}

// settings returns the settings that are not all zero.
func settings(tools map[string]*ToolConfig) map[string]ToolConfig {
	var all map[string]ToolConfig
	for name, c := range tools {
		if *c != (ToolConfig{}) {
			if all == nil {
				all = map[string]ToolConfig{}
			}
			all[name] = *c
		}
	}
	return all
}

// OfToolset splits the name of a tool of a toolset, or a glob of such names:
// "set/tool". It returns false for the name of a built-in tool.
func OfToolset(name string) (set, tool string, ok bool) { return strings.Cut(name, "/") }

func checkTools(a Agent) *Error {
	for _, name := range a.Tools {
		if set, tool, ok := OfToolset(name); ok {
			if err := checkToolsetTool("tools", set, tool); err != nil {
				return err
			}
		} else if !slices.Contains(builtinTools, name) {
			text := fmt.Sprintf("unknown tool %q in tools config", name)
			if near := Nearest(builtinTools, name); near != "" {
				text += fmt.Sprintf("; did you mean %q?", near)
			} else {
				text += "; the tools are " + strings.Join(builtinTools, ", ") + `, and "toolset/tool"`
			}
			return invalid("tools", text)
		}
	}
	for _, name := range a.Approve {
		if !approvable(a, name) {
			return invalid("approve.tools", fmt.Sprintf("%q is not in tools", name))
		}
	}
	for _, entry := range a.Approvers {
		if subjects.ParseApprover(entry) != nil {
			return invalid("approve.by", fmt.Sprintf(`must be some of "user:NAME" and "role:NAME", got %q`, entry))
		}
	}
	for _, name := range builtinTools {
		if err := checkToolConfig("tool."+name, a.ToolConf[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkToolsetTool checks the name of a tool of a toolset, or a glob, in a
// value of a key.
func checkToolsetTool(key, set, tool string) *Error {
	if err := checkAgents(key, set); err != nil {
		return err
	}
	if tool == "" {
		return invalid(key, fmt.Sprintf("%q names no tool: write %q for all tools of the toolset", set+"/", set+"/*"))
	}
	return checkGlobs(key, []string{tool})
}

// approvable reports whether a name in approve.tools may be a tool of an agent:
// it is the name of one, or belongs to a toolset of which the agent has tools.
func approvable(a Agent, name string) bool {
	set, _, ok := OfToolset(name)
	return slices.ContainsFunc(a.Tools, func(t string) bool {
		of, _, _ := OfToolset(t)
		return t == name || ok && of == set
	}) || ok && slices.ContainsFunc(a.Servers, func(t Toolset) bool { return t.Name == set })
}

// checkToolConfig checks the settings of a tool, the values of a table.
func checkToolConfig(table string, c ToolConfig) *Error {
	switch {
	case !slices.Contains([]ToolEffect{"", ToolReads, ToolIdempotent, ToolOnce}, c.Effect):
		return invalid(table+".effect", table+".effect must be one of: read, idempotent, once")
	case !slices.Contains([]OnUnknown{"", UnknownTell, UnknownAsk, UnknownAgain, UnknownFail}, c.OnUnknown):
		return invalid(table+".on_unknown", table+".on_unknown must be one of: tell, ask, again, fail")
	}
	return checkTimeout(table+".timeout", c.Timeout)
}
